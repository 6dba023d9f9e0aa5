import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { lockHolder } from '../../../local/state/lock.ts'
import {
  processArguments,
  childProcesses,
  processCommand,
  findProcesses,
  killProcesses,
  processStartTime,
} from '../../../local/processes/processes.ts'
import { siteFolders } from '../../../local/users/sandbox-site.ts'
import { isPortFree } from '../../../local/state/ports.ts'
import { tempDir, until } from '../support.ts'

interface Started {
  /** What follows `npm start --`. */
  flags?: string[]
  env?: Record<string, string>
}

/** The stack has a database of its own: what another command needs must not lead it elsewhere. */
const fromShell = {
  GANTRY_LIMITS: '{"concurrentSandboxes": 7}',
  LIBSQL_URL: 'http://127.0.0.1:1',
  SANDBOX_ROOT: '/nowhere',
}

/** `npm start` for a state folder of its own, as the leader of a process group, as in a terminal. */
function npmStart(stateDir: string, { flags = ['--no-demo'], env = {} }: Started = {}) {
  return launch('npm', ['start', '--silent', '--', ...flags], {
    ...env,
    GANTRY_STATE_DIR: stateDir,
  })
}

function launch(command: string, args: string[], env: Record<string, string>) {
  const top = spawn(command, args, {
    cwd: root,
    detached: true,
    env: { ...process.env, ...fromShell, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [top.stdout, top.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const exited = once(top, 'exit') as Promise<[number | null, string | null]>
  return { pid: top.pid ?? -1, output: () => output, exited }
}

const startGantry = (options: Started = {}, stateDir = tempDir()) =>
  untilRunning(npmStart(stateDir, options), stateDir)

async function untilRunning(top: ReturnType<typeof launch>, stateDir: string) {
  let marks: string[] = []
  onTestFinished(async () => {
    await killProcesses({ marks })
    for (const path of siteFolders(stateDir)) rmSync(path, { recursive: true, force: true })
  })
  await until(() => top.output().includes('Gantry is running'), 90_000)
  const lock = lockHolder(stateDir)
  if (lock === undefined) throw new Error('It holds no lock')
  marks = [`GANTRY_MARK=${lock.mark}`]
  const ports = Object.values(
    JSON.parse(readFileSync(join(stateDir, 'ports.json'), 'utf8')) as Record<string, number>,
  )
  const key = readFileSync(join(stateDir, 'admin-key'), 'utf8').trim()
  return {
    ...top,
    stateDir,
    url: lock.url,
    stackPid: lock.pid,
    key,
    api: (method: string, path: string, body?: unknown) =>
      fetch(`${lock.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    alive: () => findProcesses({ marks }),
    portsInUse: async () => {
      const free = await Promise.all(ports.map(isPortFree))
      return ports.filter((_, index) => free[index] === false)
    },
  }
}

test('[LOC1] [OPS7] what the shell sets reaches the control plane; Ctrl-C stops every part quietly, and a second start meanwhile says who is running', async () => {
  const gantry = await startGantry()
  expect(gantry.output()).not.toContain(gantry.key)
  expect(await gantry.portsInUse()).toHaveLength(4)

  const second = npmStart(gantry.stateDir)
  expect((await second.exited)[0]).toBe(1)
  expect(second.output()).toContain(`is already running for "${gantry.stateDir}"`)
  expect(second.output()).toContain(gantry.url)
  expect(await gantry.portsInUse()).toHaveLength(4)

  const limits = await fetch(`${gantry.url}/v1/limits`, {
    headers: { authorization: `Bearer ${gantry.key}` },
  })
  expect(await limits.json()).toMatchObject({ limits: { concurrentSandboxes: 7 } })

  // The developer's pages of wrangler would show and change every object's storage without a key.
  for (const path of [
    '/cdn-cgi/local/explorer',
    '/cdn-cgi/local/explorer/api/workers',
    '/cdn-cgi/local/platform-proxy',
  ]) {
    expect((await fetch(`${gantry.url}${path}`)).status).toBeGreaterThanOrEqual(400)
  }

  const before = gantry.output()
  process.kill(-gantry.pid, 'SIGINT')
  const [code, signal] = await gantry.exited
  expect([0, 'SIGINT']).toContain(code ?? signal) // npm ends itself by the signal, too
  expect(gantry.output()).toBe(before)
  await until(() => gantry.alive().length === 0)
  expect(await gantry.portsInUse()).toEqual([])
}, 240_000)

/** To a signal, -1 would mean every process there is. */
function mustFind(pids: readonly number[], is: (pid: number) => boolean): number {
  const found = pids.find(is)
  if (found === undefined) throw new Error('There is no such process')
  return found
}

/** A vendor that refuses every call at once. */
async function refusingModel(): Promise<Record<string, string>> {
  const server = createServer((_, response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end('{"error": {"message": "No such model", "type": "invalid_request_error"}}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return {
    GANTRY_MODEL_BASE_URL: `http://127.0.0.1:${port}`,
    GANTRY_MODEL_API_KEY: 'sk-refused',
    GANTRY_MODEL: 'refused',
  }
}

test('[HOST7] a demo that fails does not end the stack, and the next start shows none; [LOC25] that start ends what a killed stack and guardian left', async () => {
  const gantry = await startGantry({ flags: [], env: await refusingModel() })
  expect(gantry.output()).toContain('Demo session')
  expect(gantry.output()).toContain('The demo did not finish')
  expect((await gantry.api('GET', '/v1/sessions')).status).toBe(200)
  expect((await gantry.api('POST', '/v1/sessions', { title: 'Kept' })).status).toBe(201)
  await until(() => gantry.alive().some((pid) => processCommand(pid).endsWith('/opencode')), 60_000)

  // It can neither end by itself nor hear a polite word: whoever starts next must end it.
  const server = mustFind(gantry.alive(), (pid) => processCommand(pid).endsWith('/sqld'))
  process.kill(server, 'SIGSTOP')
  // As a broad kill does: whoever could clean up goes, and the stack has no time to start another guardian.
  process.kill(gantry.stackPid, 'SIGSTOP')
  const guardian = mustFind(childProcesses(gantry.stackPid), (pid) =>
    processArguments(pid).some((argument) => argument.endsWith('guardian.ts')),
  )
  process.kill(guardian, 'SIGKILL')
  process.kill(gantry.stackPid, 'SIGKILL')
  await gantry.exited
  const left = gantry.alive()
  expect(left).toContain(server)

  const next = await startGantry({ flags: [] }, gantry.stateDir)
  expect(next.output()).toContain('processes of an earlier start')
  expect(next.output()).not.toContain('Demo session')
  expect(left.filter((pid) => processStartTime(pid) !== undefined)).toEqual([])
  expect(next.url).toBe(gantry.url)
  // The list is libSQL's: what had not reached it comes by itself.
  const titles = async () => {
    const answer = (await (await next.api('GET', '/v1/sessions')).json()) as {
      items: { title: string }[]
    }
    return answer.items.map(({ title }) => title)
  }
  await expect.poll(titles, { timeout: 60_000 }).toEqual(['Kept', 'Demo'])
}, 240_000)

test('[LOC26] of two starts at once for one folder, one runs and the other says so', async () => {
  const stateDir = tempDir()
  const starts = [npmStart(stateDir), npmStart(stateDir)]
  const ended = await Promise.race(
    starts.map(async (start, at) => ({ at, code: (await start.exited)[0] })),
  )
  expect(ended.code).toBe(1)
  expect(starts[ended.at]?.output()).toMatch(/Gantry is already (starting|running) for/)
  const other = starts[1 - ended.at]
  if (other === undefined) throw new Error('There are two')
  const gantry = await untilRunning(other, stateDir)
  process.kill(gantry.stackPid, 'SIGTERM')
  await gantry.exited
}, 240_000)

test('[LOC1] SIGKILL of the process above `deno task start` ends everything, too', async () => {
  const given = tempDir()
  const deno = join(root, 'node_modules', '.bin', 'deno')
  const config = join(root, 'deno.json')
  const top = launch(deno, ['task', '--config', config, '--cwd', root, 'start', '--no-demo'], {
    GANTRY_STATE_DIR: given,
  })
  const stateDir = join(given, 'deno')
  const gantry = await untilRunning(top, stateDir)
  process.kill(gantry.pid, 'SIGKILL')
  await until(() => gantry.alive().length === 0, 30_000)
}, 240_000)
