import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { binary, root } from '../../../local/binaries.ts'
import { findProcesses, killProcesses } from '../../../local/processes/processes.ts'
import { tempFile, until } from '../support.ts'

const guardian = JSON.stringify(join(root, 'local', 'stack', 'guardian.ts'))
let marks = 0

/** A process that starts a guardian and two marked children, one of them in a session of its own. */
function startParent(): { mark: string; marked: () => number[]; pid: number } {
  const mark = `stk_test${process.pid}x${(marks += 1)}`
  const file = tempFile(
    'parent.ts',
    `import { spawn } from 'node:child_process'
    import { startGuardian } from ${guardian}
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
