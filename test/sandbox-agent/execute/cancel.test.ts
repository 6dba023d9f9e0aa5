import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findMarked } from '../../../sandbox-agent/marked-processes.ts'
import {
  makeExecutor,
  makePlace,
  makeRepository,
  newAttempt,
  operationOf,
  planOf,
  sandboxUser,
} from './execute-kit.ts'

function setUp() {
  const { root, site, mark } = makePlace(sandboxUser)
  const folder = join(root, 'attempts')
  const { executor } = makeExecutor(site, folder)
  const bodyOf = (command: string, attemptId = newAttempt()) => ({
    attemptId,
    operation: operationOf('run', { command }),
    plan: planOf('process-sandbox', {}, { timeoutMs: 120_000 }),
  })
  const left = () => findMarked({ mark, uid: undefined })
  const made = (name: string) => existsSync(join(site.workspace, name))
  return { site, folder, executor, bodyOf, left, made }
}

async function until(isTrue: () => boolean): Promise<void> {
  await expect.poll(isTrue).toBe(true)
}

describe('cancelling', { timeout: 240_000 }, () => {
  it('[EXEC26] what runs is ended with everything that it started, and says so', async () => {
    const { executor, bodyOf, left, made } = setUp()
    const body = bodyOf('touch begun; (setsid sleep 600 &) ; sleep 600; touch after')
    const report = executor.execute(body)
    await until(() => made('begun'))
    await executor.cancel(body)
    await executor.cancel(body)
    expect(await report).toMatchObject({ status: 'failed', error: 'It was cancelled' })
    expect([left(), made('after')]).toEqual([[], false])
    expect(await executor.execute(body)).toEqual(await report)
  })

  it('[EXEC26] what ignores being asked is killed', async () => {
    const { executor, bodyOf, left, made } = setUp()
    const body = bodyOf(`trap '' TERM; touch begun; while :; do sleep 0.1; done`)
    const report = executor.execute(body)
    await until(() => made('begun'))
    await executor.cancel(body)
    expect(await report).toMatchObject({ status: 'failed', error: 'It was cancelled' })
    expect(left()).toEqual([])
  })

  it('[EXEC26] what was not begun never is, also if it is delivered later or to the next agent', async () => {
    const { site, folder, executor, bodyOf, made } = setUp()
    const body = bodyOf('touch begun')
    await executor.cancel(body)
    const report = { status: 'failed', error: 'It was cancelled before it began' }
    expect(await executor.execute(body)).toMatchObject(report)
    expect(await makeExecutor(site, folder).executor.execute(body)).toMatchObject(report)
    expect(made('begun')).toBe(false)
  })

  it('[EXEC26] what waits for the sandbox is not begun', async () => {
    const { site, folder, bodyOf, made } = setUp()
    const { promise: waiting, resolve: ready } = Promise.withResolvers<typeof site>()
    const { executor } = makeExecutor(site, folder, { site: () => waiting })
    const body = bodyOf('touch begun')
    const report = executor.execute(body)
    await executor.cancel(body)
    ready(site)
    expect(await report).toMatchObject({ error: 'It was cancelled before it began' })
    expect(made('begun')).toBe(false)
  })

  it('[EXEC26] what has ended stays as it ended', async () => {
    const { executor, bodyOf } = setUp()
    const body = bodyOf('echo out')
    const report = await executor.execute(body)
    await executor.cancel(body)
    expect(await executor.execute(body)).toEqual(report)
  })

  it('[EXEC26] a request is let go', async () => {
    const server = createServer(() => {})
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => server.closeAllConnections())
    onTestFinished(() => void server.close())
    const connected = new Promise((resolve) => server.once('request', resolve))
    const { port } = server.address() as AddressInfo
    const { executor } = setUp()
    const attemptId = newAttempt()
    const url = `http://127.0.0.1:${port}/`
    const report = executor.execute({
      attemptId,
      operation: operationOf('fetch', { url }),
      plan: planOf('process-sandbox', { network: true }, { timeoutMs: 120_000 }),
    })
    await connected
    await executor.cancel({ attemptId })
    expect(await report).toMatchObject({
      status: 'failed',
      error: `Cannot fetch "${url}": it was cancelled`,
    })
  })

  it('[EXEC26] a command in a worktree publishes nothing, and what waits behind it goes on', async () => {
    const { executor, perform, git, site } = makeRepository()
    const attemptId = newAttempt()
    const waiting = newAttempt()
    const run = executor.execute({
      attemptId,
      operation: operationOf('run', { command: 'touch x; sleep 600' }),
      plan: planOf('git-worktree', {}, { timeoutMs: 120_000 }),
    })
    const dropped = perform('write-file', { targetPath: 'd', content: 'd' }, waiting)
    const kept = perform('write-file', { targetPath: 'k', content: 'k' })
    await until(() => existsSync(join(site.home, '.gantry-worktrees', attemptId, 'files', 'x')))
    await executor.cancel({ attemptId: waiting })
    await executor.cancel({ attemptId })
    expect(await run).toMatchObject({ status: 'failed', error: 'It was cancelled', branch: null })
    expect(await dropped).toMatchObject({ error: 'It was cancelled before it began' })
    expect(await kept).toMatchObject({ status: 'succeeded' })
    expect(git('branch', '--list', 'gantry/*').split('\n')).toHaveLength(1)
  })
})

describe('discarding', { timeout: 240_000 }, () => {
  const write = async () => {
    const kit = makeRepository()
    const attemptId = newAttempt()
    await kit.perform('write-file', { targetPath: 'a', content: 'a' }, attemptId)
    const branch = `gantry/${attemptId}`
    return { ...kit, attemptId, branch, body: { attemptId, branch } }
  }

  it('[EXEC27] drops the branch, answers the same when repeated, and cannot be merged any more', async () => {
    const { executor, git, body, branch } = await write()
    const [commit, before] = [git('rev-parse', branch), git('rev-parse', 'main')]
    expect(await executor.discard(body)).toEqual({ discarded: true, commit })
    expect(git('branch', '--list')).toBe('* main')
    expect(await executor.discard(body)).toEqual({ discarded: true, commit })
    await expect(executor.merge(body)).rejects.toThrow('it was discarded')
    expect([git('rev-parse', 'main'), git('status', '--porcelain')]).toEqual([before, ''])
  })

  it('[EXEC27] what is merged is not discarded', async () => {
    const { executor, body } = await write()
    await executor.merge(body)
    await expect(executor.discard(body)).rejects.toThrow('it is merged')
  })

  it('[EXEC27] a branch that was moved is left alone, and one that is gone is gone', async () => {
    const { executor, git, body, branch } = await write()
    const commit = git('rev-parse', branch)
    git('branch', '-f', branch, 'main')
    await expect(executor.discard(body)).rejects.toThrow('no longer what was reported')
    expect(git('rev-parse', branch)).toBe(git('rev-parse', 'main'))
    git('branch', '-D', branch)
    expect(await executor.discard(body)).toEqual({ discarded: true, commit: null })
    expect(commit).not.toBe('')
  })

  it('[EXEC27] only branches of attempts of this sandbox', async () => {
    const { executor, git, attemptId } = await write()
    await expect(executor.discard({ attemptId, branch: 'main' })).rejects.toThrow('no attempt')
    const unknown = newAttempt()
    const branch = `gantry/${unknown}`
    await expect(executor.discard({ attemptId: unknown, branch })).rejects.toThrow('no attempt')
    expect(git('rev-parse', '--verify', 'main')).not.toBe('')
  })
})
