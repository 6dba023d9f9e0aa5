import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { commandOf, findProcesses, killProcesses } from '../../local/processes.ts'
import { openFolders } from '../../local/sandbox-users.ts'
import { freePort, lockHolder } from '../../local/state.ts'
import { tempDir, until } from './support.ts'

/** `npm start` for a state folder of its own, as the leader of a process group, as in a terminal. */
function npmStart(stateDir: string) {
  const npm = spawn('npm', ['start', '--silent', '--', '--no-demo'], {
    cwd: root,
    detached: true,
    env: { ...process.env, GANTRY_STATE_DIR: stateDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [npm.stdout, npm.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const exited = once(npm, 'exit') as Promise<[number | null, string | null]>
  return { pid: npm.pid ?? -1, output: () => output, exited }
}

async function startGantry() {
  const stateDir = tempDir()
  const npm = npmStart(stateDir)
  let marks: string[] = []
  onTestFinished(async () => {
    await killProcesses({ marks })
    for (const path of openFolders(stateDir)) rmSync(path, { recursive: true, force: true })
  })
  await until(() => npm.output().includes('Gantry is running'), 40_000)
  const lock = lockHolder(stateDir)
  if (lock === undefined) throw new Error('It holds no lock')
  marks = [`GANTRY_MARK=${lock.mark}`]
  const ports = Object.values(
    JSON.parse(readFileSync(join(stateDir, 'ports.json'), 'utf8')) as Record<string, number>,
  )
  return {
    ...npm,
    stateDir,
    url: lock.url,
    key: readFileSync(join(stateDir, 'admin-key'), 'utf8').trim(),
    alive: () => findProcesses({ marks }),
    portsInUse: async () => {
      const free = await Promise.all(ports.map((port) => freePort(port)))
      return ports.filter((port, index) => free[index] !== port)
    },
  }
}

test('[LOC1] Ctrl-C stops every part quietly, and a second start meanwhile says who is running', async () => {
  const gantry = await startGantry()
  expect(gantry.output()).not.toContain(gantry.key)
  expect(await gantry.portsInUse()).toHaveLength(4)

  const second = npmStart(gantry.stateDir)
  expect((await second.exited)[0]).toBe(1)
  expect(second.output()).toContain(`is already running for "${gantry.stateDir}"`)
  expect(second.output()).toContain(gantry.url)
  expect(await gantry.portsInUse()).toHaveLength(4)

  // The developer's doors of wrangler would show and change every object's storage without a key.
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
}, 60_000)

test('[LOC1] after SIGKILL of npm start with a sandbox, no process is left and the ports are free', async () => {
  const gantry = await startGantry()
  const created = await fetch(`${gantry.url}/v1/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gantry.key}`, 'content-type': 'application/json' },
    body: '{}',
  })
  expect(created.status).toBe(201)
  await until(() => gantry.alive().some((pid) => commandOf(pid).endsWith('/opencode')), 20_000)
  process.kill(gantry.pid, 'SIGKILL')
  await until(() => gantry.alive().length === 0)
  await until(async () => (await gantry.portsInUse()).length === 0)
}, 60_000)
