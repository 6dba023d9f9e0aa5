import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { processStartTime } from '../../../local/processes/processes.ts'
import { tempFile, until } from '../support.ts'

const parent = JSON.stringify(join(root, 'local', 'processes', 'parent.ts'))

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
    `import { onParentGone } from ${parent}
    onParentGone(() => process.exit(0))
    console.log(process.pid)
    setInterval(() => undefined, 1000)`,
  )
  const pid = Number(await until(() => output().trim()))
  expect(processStartTime(pid)).toBeDefined()
  launcher.kill('SIGKILL')
  await until(() => processStartTime(pid) === undefined)
})

test('[LOC2] SIGKILL of the npm above the launcher is noticed, too', async () => {
  const child = tempFile(
    'child.ts',
    `import { onParentGone } from ${parent}
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
  await until(() => processStartTime(pid) === undefined)
})
