import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { binary, root } from '../../local/binaries.ts'
import { signalProcess, processStartTime } from '../../local/processes/processes.ts'
import { tempDir, until } from '../local/support.ts'
import { findMentioning } from './mentions.ts'
import { longOnly, longToo } from '../support/long-files.ts'
import { longChains, longLast } from './parts.ts'
import { findRoom } from './rooms.ts'

const limitMs = 60_000

/** The runner over one of the fixtures, which is told of a file to write. */
function startRun(fixture: string): { runner: ChildProcess; output: () => string; file: string } {
  const file = join(tempDir(), 'fixture')
  const config = 'test/runner/fixtures/config.ts'
  const args = [join(root, 'test', 'run.ts'), '--config', config, fixture]
  const runner = spawn(binary('node'), args, {
    env: { ...process.env, GANTRY_FIXTURE: file },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let output = ''
  runner.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  onTestFinished(() => void runner.kill('SIGKILL'))
  return { runner, output: () => output, file }
}

describe('a run that is ended', { timeout: limitMs * 3 }, () => {
  test.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
    '[TEST2] by %s leaves no test process, no server, no child of its own session and no folder',
    async (signal) => {
      const { runner, file } = startRun('servers')
      await until(() => existsSync(file), limitMs)
      const started = JSON.parse(readFileSync(file, 'utf8')) as { folder: string; pids: number[] }
      onTestFinished(() => started.pids.forEach((pid) => signalProcess(pid, 'SIGKILL')))
      expect(started.pids.map(processStartTime)).not.toContain(undefined)
      runner.kill(signal)
      await until(() => findMentioning(started.folder).length === 0, limitMs)
      await until(() => !existsSync(started.folder), limitMs)
      expect(started.pids.map(processStartTime)).toEqual([undefined, undefined, undefined])
    },
  )
})

test('[TEST1] a test that fails once is red, and a skipped one is counted and says why', async () => {
  const { runner, output } = startRun('flaky')
  const [code] = (await once(runner, 'close')) as [number]
  expect([code, output().trim().split('\n').at(-1)]).toEqual([1, '1 passed, 1 failed, 1 skipped'])
  expect(output()).toContain('skipped: is not run: needs another machine\n')
})

describe('[TEST3] a word names the tests of a room', () => {
  test('a folder of tests', () => {
    const { files, others } = findRoom('blackbox')
    expect(files).toContain('test/blackbox/calls.test.ts')
    expect(others).toEqual([])
  })

  test.each(['calls', 'CALL'])('an area of SPEC.md, here %s, where no server is needed', (word) => {
    const { files, others } = findRoom(word)
    expect(files).toContain('test/core/session/calls/calls.test.ts')
    expect(files.every((file) => /^test\/(core|contract|http|through)\//.test(file))).toBe(true)
    expect(others).toContain('test/blackbox/calls.test.ts')
  })

  test('or nothing', () => {
    expect(findRoom('nonsense')).toEqual({ files: [], others: [] })
  })
})

test('the chains of the long run have each of its files once, and none of them is empty', () => {
  const lists = [...longChains.flat(), [longLast]]
  expect(lists.map(({ length }) => length)).not.toContain(0)
  const expected = globSync([...longOnly, ...longToo], { cwd: root })
  expect(lists.flat().toSorted()).toEqual(expected.toSorted())
})
