import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { binary, root } from '../../local/binaries.ts'
import { findProcesses, killProcesses, startTime } from '../../local/processes.ts'
import { tempFile, until } from './support.ts'

const local = (name: string) => JSON.stringify(join(root, 'local', name))
let marks = 0

/** A process that starts a guardian and two marked children, one of them in a session of its own. */
function startParent(): { mark: string; marked: () => number[]; pid: number } {
  const mark = `stk_test${process.pid}x${(marks += 1)}`
  const file = tempFile(
    'parent.ts',
    `import { spawn } from 'node:child_process'
    import { startGuardian } from ${local('guardian.ts')}
    startGuardian('${mark}')
    const env = { PATH: process.env.PATH, GANTRY_MARK: '${mark}' }
    spawn('sleep', ['60'], { env })
    spawn('setsid', ['sh', '-c', 'sleep 61 & sleep 62'], { env, detached: true })
    setInterval(() => undefined, 1000)`,
  )
  const parent = spawn(binary('node'), [file], { stdio: 'inherit' })
  const wanted = { marks: [`GANTRY_MARK=${mark}`] }
  onTestFinished(async () => {
    parent.kill('SIGKILL')
    await killProcesses(wanted)
  })
  return { mark, marked: () => findProcesses(wanted), pid: parent.pid ?? -1 }
}

test('[LOC1] SIGKILL of the process that started a stack ends everything with its mark, a setsid child too', async () => {
  const parent = startParent()
  await until(() => parent.marked().length >= 4)
  process.kill(parent.pid, 'SIGKILL')
  await until(() => parent.marked().length === 0)
})

test('[LOC1] a guardian leaves the processes of other stacks alone', async () => {
  const [one, other] = [startParent(), startParent()]
  await until(() => one.marked().length >= 4 && other.marked().length >= 4)
  process.kill(one.pid, 'SIGKILL')
  await until(() => one.marked().length === 0)
  expect(other.marked().length).toBeGreaterThanOrEqual(4)
})

function launch(source: string, args: string[] = []) {
  const launcher = spawn(
    'node',
    [join(root, 'bin', 'gantry.mjs'), tempFile('child.ts', source), ...args],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let output = ''
  launcher.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  onTestFinished(() => void launcher.kill('SIGKILL'))
  return { launcher, output: () => output }
}

test('[LOC2] the launcher passes arguments on and the exit code back', async () => {
  const { launcher, output } = launch(
    `console.log(process.version.split('.')[0], ...process.argv.slice(2)); process.exitCode = 7`,
    ['a b', '--c'],
  )
  const [code] = (await once(launcher, 'close')) as [number]
  expect({ code, output: output().trim() }).toEqual({ code: 7, output: 'v24 a b --c' })
})

test('[LOC2] the launcher passes signals on', async () => {
  const { launcher, output } = launch(
    `process.on('SIGTERM', () => process.exit(3)); console.log('up'); setInterval(() => undefined, 1000)`,
  )
  await until(() => output().includes('up'))
  launcher.kill('SIGTERM')
  expect(await once(launcher, 'exit')).toEqual([3, null])
})

test('[LOC2] SIGKILL of the launcher is noticed by what it runs', async () => {
  const { launcher, output } = launch(
    `import { onParentGone } from ${local('parent.ts')}
    onParentGone(() => process.exit(0))
    console.log(process.pid)
    setInterval(() => undefined, 1000)`,
  )
  const pid = Number(await until(() => output().trim()))
  expect(startTime(pid)).toBeDefined()
  launcher.kill('SIGKILL')
  await until(() => startTime(pid) === undefined)
})

test('[LOC2] SIGKILL of the npm above the launcher is noticed, too', async () => {
  const child = tempFile(
    'child.ts',
    `import { onParentGone } from ${local('parent.ts')}
    onParentGone(() => process.exit(0))
    console.log(process.pid)
    setInterval(() => undefined, 1000)`,
  )
  // Stands for npm: runs a shell that runs the launcher, and stays above it.
  const npm = tempFile(
    'npm.mjs',
    `import { spawn } from 'node:child_process'
    spawn('sh', ['-c', 'node ${join(root, 'bin', 'gantry.mjs')} ${child}; true'], { stdio: 'inherit' })`,
  )
  const top = spawn('node', [npm], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, npm_lifecycle_event: 'start' },
  })
  let output = ''
  top.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const pid = Number(await until(() => output.trim()))
  top.kill('SIGKILL')
  await until(() => startTime(pid) === undefined)
})
