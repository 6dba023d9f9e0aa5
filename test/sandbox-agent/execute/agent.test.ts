import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { CommandBody } from '../../../src/contract/link.ts'
import { startAgent } from '../agent-kit.ts'
import { newAttempt, operationOf, planOf } from './execute-kit.ts'

const bodyOf = (
  operation: string,
  fields: object,
  strategy: 'process-sandbox' | 'git-worktree',
): CommandBody<'execute'> => ({
  attemptId: newAttempt(),
  operation: operationOf(operation, fields),
  plan: planOf(strategy),
})

// Each starts several processes of Node, which takes its time on a busy machine.
describe('an agent', { timeout: 240_000 }, () => {
  it('[EXEC25] says what it enforces when it is ready, and carries out and merges over the link', async () => {
    const { site, git, uploads, start, send, resultOf, readies, left } = await startAgent()
    const agent = start()
    await vi.waitFor(() => expect(readies()).toHaveLength(1), 120_000)
    expect(readies()[0]).toMatchObject({ enforces: expect.arrayContaining(['time', 'real-path']) })
    send('c1', 'execute', bodyOf('run', { command: 'echo told; sleep 90 &' }, 'process-sandbox'))
    expect(await resultOf('c1')).toMatchObject({
      ok: true,
      data: { status: 'succeeded', output: 'told\n' },
    })
    const edit = bodyOf('write-file', { targetPath: 'x', content: 'x\n' }, 'git-worktree')
    const branch = `gantry/${edit.attemptId}`
    send('c2', 'execute', edit)
    expect(await resultOf('c2')).toMatchObject({ ok: true, data: { branch } })
    expect(uploads[0]).toContain('+x')
    send('c3', 'merge', { attemptId: edit.attemptId, branch })
    expect(await resultOf('c3')).toMatchObject({ ok: true, data: { merged: true } })
    expect(git('show', 'HEAD:x')).toBe('x')
    expect(existsSync(join(site.workspace, 'x'))).toBe(true)
    send('c4', 'stop', { reason: 'test' })
    await vi.waitFor(() => expect(agent.exitCode).toBe(0), 120_000)
    expect(left()).toEqual([])
  })

  it('[EXEC22] killed in the middle of an operation its successor says so, and nothing runs on', async () => {
    const { site, start, send, resultOf, readies, left } = await startAgent()
    const first = start()
    await vi.waitFor(() => expect(readies()).toHaveLength(1), 120_000)
    send('c1', 'execute', bodyOf('run', { command: 'touch begun; sleep 91' }, 'process-sandbox'))
    await vi.waitFor(() => expect(existsSync(join(site.workspace, 'begun'))).toBe(true), 120_000)
    first.kill('SIGKILL')
    start()
    expect(await resultOf('c1')).toMatchObject({ ok: true, data: { status: 'unknown' } })
    const isOfOperation = (pid: number) =>
      readFileSync(`/proc/${pid}/cmdline`).includes('sleep\x0091')
    await vi.waitFor(() => expect(left().filter(isOfOperation)).toEqual([]), 120_000)
    send('c2', 'execute', bodyOf('run', { command: 'echo again' }, 'process-sandbox'))
    expect(await resultOf('c2')).toMatchObject({ data: { output: 'again\n' } })
  })
})
