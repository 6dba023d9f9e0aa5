import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { binary, root } from '../../local/binaries.ts'
import { killProcesses, stackMark } from '../../local/processes.ts'
import { openFolders, sandboxRootIn } from '../../local/sandbox-users.ts'
import { lockHolder } from '../../local/state.ts'
import { argvOf, Box, isRoot, listeners, portsOf, stackProcesses, until } from './support.ts'

/** `npm start` without npm and demo, for a state folder of its own. */
async function startGantry() {
  const stateDir = mkdtempSync(join(tmpdir(), 'gantry-e2e-'))
  const starter = spawn(
    binary('node'),
    [join(root, 'local', 'start.ts'), '--no-demo', '--host', 'workerd'],
    {
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], GANTRY_STATE_DIR: stateDir },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const ended = once(starter, 'exit')
  let output = ''
  for (const stream of [starter.stdout, starter.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await until('Gantry runs', 40_000, () => output.includes('Gantry is running'))
  const lock = lockHolder(stateDir)
  if (lock === undefined) throw new Error('It holds no lock')
  onTestFinished(async () => {
    await killProcesses({ marks: [`${stackMark}=${lock.mark}`] })
    for (const path of [stateDir, ...openFolders(stateDir)])
      rmSync(path, { recursive: true, force: true })
  })
  const folder = openFolders(stateDir)[0] as string
  const place = isRoot ? sandboxRootIn(folder) : join(stateDir, 'sandboxes')
  return {
    pid: starter.pid as number,
    ended,
    mark: lock.mark,
    url: lock.url,
    adminKey: readFileSync(join(stateDir, 'admin-key'), 'utf8').trim(),
    sandboxPlace: { root: place, opencode: '', path: [], uids: undefined, warning: undefined },
  }
}

let nextSeconds = 100_000 + (process.pid % 1000) * 10

/** Leaves two children behind, in sessions of their own, one of them also without the marks. */
async function leaveChildren(box: Box): Promise<() => number[]> {
  const [marked, bare] = [`${nextSeconds++}`, `${nextSeconds++}`]
  await box.bash(
    `setsid sleep ${marked} >/dev/null 2>&1 & setsid env -i sleep ${isRoot ? bare : marked} >/dev/null 2>&1 & echo left`,
  )
  const find = () => everybody().filter((pid) => [marked, bare].includes(argvOf(pid)[1] ?? ''))
  await until('the children run', 10_000, () => find().length === 2)
  return find
}

const everybody = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

/** OpenCode's favourite port may have been taken by another one meanwhile. */
async function expectFree(ports: number[]): Promise<void> {
  const busy = () => listeners().filter(({ port }) => port !== 4096 && ports.includes(port))
  await until('the ports are free', 5000, () => busy().length === 0)
}

test('[BOX7] [HOST2] [LOC1] children that left their process group end with their session, and with the stack by Ctrl-C', async () => {
  const gantry = await startGantry()
  const first = await Box.create(gantry)
  await first.ready()
  const leftByFirst = await leaveChildren(first)
  await first.post('/close')
  await until(
    'the children of the closed session are gone',
    15_000,
    () => leftByFirst().length === 0,
  )
  await until('the closed session has no process', 15_000, () => first.processes().length === 0)

  const second = await Box.create(gantry)
  await second.ready()
  const leftBySecond = await leaveChildren(second)
  const ports = portsOf([...stackProcesses(gantry.mark), gantry.pid])
  expect(ports.length).toBeGreaterThanOrEqual(6)
  process.kill(gantry.pid, 'SIGINT')
  expect((await gantry.ended)[0]).toBe(0)
  expect(stackProcesses(gantry.mark)).toEqual([])
  expect(leftBySecond()).toEqual([])
  await expectFree(ports)
})

test('[BOX7] [HOST2] [LOC1] nothing is left when the starter itself is killed', async () => {
  const gantry = await startGantry()
  const box = await Box.create(gantry)
  await box.ready()
  const left = await leaveChildren(box)
  const ports = portsOf([...stackProcesses(gantry.mark), gantry.pid])
  process.kill(gantry.pid, 'SIGKILL')
  await until(
    'no process of the stack is left',
    20_000,
    () => stackProcesses(gantry.mark).length === 0,
  )
  await until('no child is left', 10_000, () => left().length === 0)
  await expectFree(ports)
})
