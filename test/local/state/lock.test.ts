import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { endStaleLockHolder, lockState, type Lock, lockHolder } from '../../../local/state/lock.ts'
import { killProcesses, processStartTime } from '../../../local/processes/processes.ts'
import { tempDir } from '../support.ts'

const about = { url: 'http://127.0.0.1:1', mark: `stk_lock${process.pid}` }

const say = (stateDir: string, lock: Lock) =>
  writeFileSync(join(stateDir, 'lock'), JSON.stringify(lock))

test('[LOC26] a folder that is held is refused: first without a name, then with process and address', () => {
  const stateDir = tempDir()
  const held = lockState(stateDir)
  expect(() => lockState(stateDir)).toThrow('already starting')
  held.describe(about)
  expect(() => lockState(stateDir)).toThrow(`as process ${process.pid}: ${about.url}`)
  held.release()
  expect(lockHolder(stateDir)).toBeUndefined()
  const next = lockState(stateDir)
  expect(next.left).toBeUndefined()
  next.release()
})

test('[LOC25] [LOC26] a stack that is gone holds nothing, though another process has its number now; what it said of itself is there', () => {
  const stateDir = tempDir()
  const gone = { pid: process.pid, startedAt: `not ${processStartTime(process.pid)}`, ...about }
  say(stateDir, gone)
  expect(lockHolder(stateDir)).toBeUndefined()
  const held = lockState(stateDir)
  expect(held.left).toEqual(gone)
  // A start that fails leaves it for the next one; a stack that ends does not.
  held.giveUp()
  const again = lockState(stateDir)
  expect(again.left).toEqual(gone)
  again.release()
  const last = lockState(stateDir)
  expect(last.left).toBeUndefined()
  last.release()
})

test('[LOC25] what a stack has left is ended, counted, and nothing of another', async () => {
  const start = (mark: string) => {
    const env = { PATH: process.env['PATH'], GANTRY_MARK: mark }
    const child = spawn('sleep', ['60'], { env, stdio: 'ignore' })
    onTestFinished(async () => void (await killProcesses({ marks: [`GANTRY_MARK=${mark}`] })))
    return child
  }
  const [own, other] = [start(about.mark), start(`${about.mark}other`)]
  await Promise.all([own, other].map((child) => new Promise((done) => child.once('spawn', done))))
  const ended = new Promise((done) => own.once('exit', done))
  expect(await endStaleLockHolder({ pid: 1, startedAt: '', ...about }, '/state')).toBe(1)
  await ended
  expect(other.exitCode).toBeNull()
  expect(other.signalCode).toBeNull()
})
