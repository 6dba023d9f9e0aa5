import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { killProcesses, stackMark } from '../../local/processes/processes.ts'
import { siteFolders, sandboxRootIn } from '../../local/users/sandbox-site.ts'
import { lockHolder } from '../../local/state/lock.ts'
import { isLong } from '../support/long.ts'
import { Box, leaveChildren, listeners, portsOf, stackProcesses, until, write } from './support.ts'
import { isRoot } from '../support/needs.ts'

/** `npm start` without the demo, for a state folder of its own, as the leader of a process group, as in a terminal. */
async function startGantry(stateDir = mkdtempSync(join(tmpdir(), 'gantry-e2e-'))) {
  const starter = spawn('npm', ['start', '--silent', '--', '--no-demo', '--host', 'workerd'], {
    cwd: root,
    detached: true,
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      TMPDIR: tmpdir(),
      GANTRY_STATE_DIR: stateDir,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(starter, 'exit')
  let output = ''
  for (const stream of [starter.stdout, starter.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const isUp = () => output.includes('Gantry is running') || starter.exitCode !== null
  await until('Gantry runs', 120_000, isUp).catch((error: unknown) => {
    throw new Error(`It does not start. It says:\n${output}`, { cause: error })
  })
  if (starter.exitCode !== null) throw new Error(`It has ended. It says:\n${output}`)
  const lock = lockHolder(stateDir)
  if (lock === undefined) throw new Error('It holds no lock')
  onTestFinished(async () => {
    await killProcesses({ marks: [`${stackMark}=${lock.mark}`] })
    for (const path of [stateDir, ...siteFolders(stateDir)])
      rmSync(path, { recursive: true, force: true })
  })
  const folder = siteFolders(stateDir)[0] as string
  const place = isRoot ? sandboxRootIn(folder) : join(stateDir, 'sandboxes')
  return {
    pid: starter.pid as number,
    /** Of the process that has the stack, below npm. */
    stackPid: lock.pid,
    stateDir,
    output: () => output,
    ended,
    mark: lock.mark,
    url: lock.url,
    adminKey: readFileSync(join(stateDir, 'admin-key'), 'utf8').trim(),
    sandboxSite: { root: place, opencode: '', path: [], uids: undefined, warning: undefined },
  }
}

/** OpenCode's favourite port may have been taken by another one meanwhile. */
async function expectFree(ports: number[]): Promise<void> {
  const busy = () => listeners().filter(({ port }) => port !== 4096 && ports.includes(port))
  await until('the ports are free', 5000, () => busy().length === 0)
}

const work = [write('work.txt', 'half done')]

/** After another start the session goes on with the files that it had. */
async function expectGoesOn(stateDir: string, id: string, generation: number) {
  const gantry = await startGantry(stateDir)
  const box = new Box(gantry, id)
  expect((await box.get('/diff')).json).toMatchObject({ files: [{ path: 'work.txt' }] })
  expect(await box.bash('cat work.txt')).toContain('half done')
  await box.ready()
  expect(box.generation).toBe(generation)
  expect(readFileSync(box.folder('workspace/work.txt'), 'utf8')).toBe('half done')
  const changed = { files: [{ path: 'work.txt', status: 'added' }] }
  expect((await box.get('/diff')).json).toMatchObject({ ...changed, live: true, generation })
  expect((await box.get('/patches')).json).toMatchObject({ items: [{ generation: 1, files: 1 }] })
  expect((await box.get('/patches/latest')).text).toContain('+half done')
  return { gantry, box }
}

test('[BOX7] [HOST2] [LOC1] [LOC27] children that left their process group end with the stack by Ctrl-C; what is open goes on after the next start, which a SIGKILL of npm ends as wholly', async () => {
  const first = await startGantry()
  const box = await Box.create(first)
  await box.ready()
  await box.run(work)
  const left = await leaveChildren(box)
  const ports = portsOf([...stackProcesses(first.mark), first.stackPid])
  expect(ports.length).toBeGreaterThanOrEqual(6)
  process.kill(-first.pid, 'SIGINT')
  const [code, signal] = await first.ended
  expect([0, 'SIGINT']).toContain(code ?? signal) // npm ends itself by the signal, too
  await expectGone(first.mark, left, ports)
  expect(first.output()).toContain('Saving 1 session …')
  expect(first.output()).not.toContain('Not everything is saved')

  const next = await expectGoesOn(first.stateDir, box.id, 2)
  const leftNext = await leaveChildren(next.box)
  const portsNext = portsOf([...stackProcesses(next.gantry.mark), next.gantry.stackPid])
  process.kill(next.gantry.pid, 'SIGKILL')
  await expectGone(next.gantry.mark, leftNext, portsNext)
  if (isLong) await expectGoesOn(first.stateDir, box.id, 3)
})

async function expectGone(mark: string, left: () => unknown[], ports: number[]): Promise<void> {
  await until('no process of the stack is left', 20_000, () => stackProcesses(mark).length === 0)
  await until('no child is left', 10_000, () => left().length === 0)
  await expectFree(ports)
}
