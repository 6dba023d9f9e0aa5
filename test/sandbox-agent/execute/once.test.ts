import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { findMarked } from '../../../sandbox-agent/marked-processes.ts'
import {
  makeExecutor,
  makeRepository,
  newAttempt,
  operationOf,
  planOf,
  put,
} from './execute-kit.ts'
import { serve } from '../support.ts'

const hostFile = new URL('execute-host.ts', import.meta.url).pathname

function setUp() {
  const kit = makeRepository()
  const { site, root, mark } = kit
  const folder = join(root, 'attempts')
  const count = () => {
    const path = join(site.workspace, 'count')
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0
  }
  const bodyOf = (
    operation: string,
    fields: object,
    strategy: 'git-worktree' | 'process-sandbox',
  ) => ({
    attemptId: newAttempt(),
    operation: operationOf(operation, fields),
    plan: planOf(strategy),
  })
  type Body = ReturnType<typeof bodyOf>
  /** A process of its own that can be killed. */
  const host = (body: Body, crashUrl = '') => {
    const child = spawn(process.execPath, [hostFile, JSON.stringify({ site, folder, body })], {
      env: { PATH: process.env['PATH'] ?? '', GANTRY_CRASH_URL: crashUrl },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }
  /** The next process of the agent, on the same folder. */
  const redeliver = (body: Body) => makeExecutor(site, folder).executor.execute(body)
  const left = () => findMarked({ mark, uid: undefined })
  return { ...kit, folder, count, bodyOf, host, redeliver, left }
}

const ended = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve()
    else child.once('exit', () => resolve())
  })

/** Kills the process at a crash point, before it is answered. */
async function killAt(point: string, start: (url: string) => ChildProcess): Promise<void> {
  let child: ChildProcess | undefined
  const server = await serve((request, response) => {
    if (request.path === `/agent.${point}`) child?.kill('SIGKILL')
    else response.end()
  })
  child = start(server.url)
  await ended(child)
  expect(child.signalCode).toBe('SIGKILL')
}

// Each starts several processes of Node, which takes its time on a busy machine.
describe('an attempt', { timeout: 240_000 }, () => {
  it('[EXEC22] killed after it was begun it is never carried out, and is unknown', async () => {
    const { bodyOf, host, redeliver, count } = setUp()
    const body = bodyOf('run', { command: 'echo x >> count' }, 'process-sandbox')
    await killAt('execute.begun', (url) => host(body, url))
    expect(count()).toBe(0)
    for (let time = 0; time < 3; time += 1)
      expect(await redeliver(body)).toMatchObject({ status: 'unknown', output: '', branch: null })
    expect(count()).toBe(0)
  })

  it('[EXEC22] killed in the middle it is not carried out again, and what is left of it is killed', async () => {
    const { bodyOf, host, redeliver, count, left } = setUp()
    const command = 'echo x >> count; sleep 80; echo x >> count'
    const body = bodyOf('run', { command }, 'process-sandbox')
    const child = host(body)
    await vi.waitFor(() => expect(count()).toBe(1), 120_000)
    child.kill('SIGKILL')
    await ended(child)
    expect(left().length).toBeGreaterThan(0)
    const report = await redeliver(body)
    expect(report).toMatchObject({ status: 'unknown' })
    expect(report.error).toContain('nobody can say how far it came')
    expect([count(), left()]).toEqual([1, []])
    expect(await redeliver(body)).toEqual(report)
  })

  it('[EXEC22] killed after its end was written it is told as it ended', async () => {
    const { bodyOf, host, redeliver, count } = setUp()
    const body = bodyOf('run', { command: 'echo x >> count; echo told' }, 'process-sandbox')
    await killAt('execute.done', (url) => host(body, url))
    expect(await redeliver(body)).toMatchObject({ status: 'succeeded', output: 'told\n' })
    expect(count()).toBe(1)
  })

  it('[EXEC22] killed at any moment it is carried out at most once, and what is told of it is true', async () => {
    const { bodyOf, host, redeliver, count } = setUp()
    const told: string[] = []
    for (let time = 0; time < 8; time += 1) {
      const before = count()
      const body = bodyOf('run', { command: 'echo x >> count; sleep 0.05' }, 'process-sandbox')
      const child = host(body)
      // From before its start until after its end.
      await Promise.race([
        ended(child),
        new Promise((resolve) => setTimeout(resolve, 60 + 60 * time)),
      ])
      child.kill('SIGKILL')
      await ended(child)
      const { status } = await redeliver(body)
      told.push(status)
      const times = count() - before
      expect(times).toBeLessThanOrEqual(1)
      if (status === 'succeeded') expect(times).toBe(1)
      expect((await redeliver(body)).status).toBe(status)
    }
    expect(told).toContain('succeeded')
  })

  it('[EXEC22] an edit that was cut off leaves no checkout behind', async () => {
    const { site, git, bodyOf, host, redeliver, executor } = setUp()
    put(site, 'marker', '')
    const command = 'touch begun; sleep 81'
    const body = bodyOf('run', { command }, 'git-worktree')
    const child = host(body)
    const begun = join(site.home, '.gantry-worktrees', body.attemptId, 'files', 'begun')
    await vi.waitFor(() => expect(existsSync(begun)).toBe(true), 120_000)
    child.kill('SIGKILL')
    await ended(child)
    expect(await redeliver(body)).toMatchObject({ status: 'unknown' })
    expect(readdirSync(join(site.home, '.gantry-worktrees'))).toEqual([])
    expect(git('branch', '--list')).toBe('* main')
    const merge = { attemptId: body.attemptId, branch: `gantry/${body.attemptId}` }
    await expect(executor.merge(merge)).rejects.toThrow('no attempt of this sandbox has made it')
  })

  it('[EXEC22] a record that was cut off itself counts as begun', async () => {
    const { folder, bodyOf, redeliver, count } = setUp()
    const body = bodyOf('run', { command: 'echo x >> count' }, 'process-sandbox')
    writeFileSync(join(folder, `${body.attemptId}.begun`), '{"dig')
    expect(await redeliver(body)).toMatchObject({ status: 'unknown' })
    expect(count()).toBe(0)
  })

  it('[EXEC23] asked twenty times at once and again afterwards, it is carried out once', async () => {
    const { bodyOf, executor, redeliver, count } = setUp()
    const body = bodyOf(
      'run',
      { command: 'echo x >> count; sleep 0.1; echo done' },
      'process-sandbox',
    )
    const reports = await Promise.all(Array.from({ length: 20 }, () => executor.execute(body)))
    expect(new Set(reports.map((report) => JSON.stringify(report))).size).toBe(1)
    expect(await executor.execute(body)).toEqual(reports[0])
    expect(await redeliver(body)).toEqual(reports[0])
    expect(count()).toBe(1)
  })

  it('[EXEC23] another operation under the same attempt is refused', async () => {
    const { bodyOf, executor, count } = setUp()
    const body = bodyOf('run', { command: 'true' }, 'process-sandbox')
    await executor.execute(body)
    const other = { ...body, operation: operationOf('run', { command: 'echo x >> count' }) }
    await expect(executor.execute(other)).rejects.toThrow('it was begun with another operation')
    expect(count()).toBe(0)
  })

  it('[EXEC23] looking may be repeated and always tells the present', async () => {
    const { site, executor } = setUp()
    const body = {
      attemptId: newAttempt(),
      operation: operationOf('read-file', { targetPath: 'later.txt' }),
      plan: planOf('workspace'),
    }
    expect((await executor.execute(body)).output).toBe('later\n')
    put(site, 'later.txt', 'now\n')
    expect((await executor.execute(body)).output).toBe('now\n')
  })

  it('[EXEC24] a report that the link cannot carry is shortened, and says so', async () => {
    const { site, root } = setUp()
    const { executor } = makeExecutor(site, join(root, 'small'), { maxReportBytes: 10_000 })
    const report = await executor.execute({
      attemptId: newAttempt(),
      // Control characters take six bytes each in JSON.
      operation: operationOf('run', { command: `head -c 8000 /dev/zero | tr '\\0' '\\1'` }),
      plan: planOf('process-sandbox'),
    })
    expect([report.status, report.truncated]).toEqual(['succeeded', true])
    expect(Buffer.byteLength(JSON.stringify(report))).toBeLessThan(30_000)
  })

  it('[EXEC24] an operation without an executor, or by the wrong plan, fails and says so', async () => {
    const { executor } = setUp()
    const attempt = (operation: string, strategy: 'denied' | 'process-sandbox' | 'workspace') =>
      executor.execute({
        attemptId: newAttempt(),
        operation: operationOf(operation, { command: 'true', targetPath: 'x' }),
        plan: planOf(strategy),
      })
    expect((await attempt('other', 'process-sandbox')).error).toBe(
      'Cannot execute "other" by the plan "process-sandbox"',
    )
    expect((await attempt('run', 'workspace')).error).toContain('by the plan "workspace"')
    expect((await attempt('write-file', 'process-sandbox')).error).toContain('by the plan')
    expect((await attempt('run', 'denied')).error).toContain('by the plan "denied"')
  })
})

describe('what a sandbox enforces', () => {
  it('[EXEC25] is tried out once, with real processes', async () => {
    const { site, root } = setUp()
    const { executor } = makeExecutor(site, join(root, 'probe'))
    const [first, second] = await Promise.all([executor.enforces(), executor.enforces()])
    expect(second).toBe(first)
    const canEnclose =
      spawnSync('unshare', ['--user', '--net', '--pid', '--fork', 'true']).status === 0
    const held = canEnclose ? ['network', 'memory', 'processes'] : []
    expect(first).toEqual(expect.arrayContaining(['time', 'output', 'real-path', ...held]))
    if (!canEnclose) expect(first).not.toContain('network')
    console.log(`This machine enforces ${first.join(', ')} as uid ${process.getuid?.()}`)
  })
})
