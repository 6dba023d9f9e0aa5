import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import type { Artifact } from '../../src/contract/artifact.ts'
import type { Attempt, MergeReport, OperationRecord } from '../../src/contract/operation.ts'
import type { Run } from '../../src/contract/run.ts'
import { api, decisionsOf, entriesOf, makeKey, resolve, runOf } from './policy-kit.ts'
import { Box, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

let box: Box
let run: Run
/** Of three people; the first has two keys. */
let asker: string
let askersOther: string
let approver: string

beforeAll(async () => {
  box = await Box.create(stack())
  asker = await makeKey(stack(), 'ada', 'write')
  askersOther = await makeKey(stack(), 'ada', 'approve')
  approver = await makeKey(stack(), 'grace', 'approve')
  const created = await api(stack(), 'POST', `/sessions/${box.id}/runs`, { intent: 'By hand' })
  expect(created.status).toBe(201)
  run = created.json as Run
  await box.ready()
}, 240_000)

async function operate(operation: Record<string, unknown>): Promise<OperationRecord> {
  const path = `/runs/${run.id}/operations`
  const answer = await api(stack(), 'POST', path, { operation }, asker)
  expect([answer.status, answer.text]).toEqual([201, expect.any(String)])
  return answer.json as OperationRecord
}

const settled = async ({ id }: Pick<OperationRecord, 'id'>): Promise<OperationRecord> =>
  (await api(stack(), 'GET', `/operations/${id}?wait=30`)).json as OperationRecord

const resume = ({ approvalId }: OperationRecord, key = asker) =>
  api(stack(), 'POST', `/approvals/${approvalId}/resume`, undefined, key)

const approve = ({ approvalId }: OperationRecord, key = approver) =>
  resolve(box, { id: approvalId as NonNullable<typeof approvalId> }, 'approved', {}, key)

/** Asked for by one, approved by another, executed. */
async function approved(operation: Record<string, unknown>): Promise<OperationRecord> {
  const asked = await operate(operation)
  expect(asked.decision).toBe('ask')
  expect((await approve(asked)).status).toBe(200)
  expect((await resume(asked)).status).toBe(200)
  return settled(asked)
}

test('[ATT1] [EXEC1] [EXEC3] a read is allowed by default and done in the sandbox; a link out of the workspace is not followed', async () => {
  writeFileSync(box.folder('workspace/notes.txt'), 'from the sandbox\n')
  symlinkSync('/etc/hostname', box.folder('workspace/inside'))
  const read = { category: 'read', operation: 'read-file' }
  const found = await settled(await operate({ ...read, targetPath: 'notes.txt' }))
  expect(found).toMatchObject({ decision: 'allow', rule: 'default:read' })
  expect(found.plan.strategy).toBe('workspace')
  expect(found.attempts).toMatchObject([
    { status: 'succeeded', executor: 'workspace', report: { output: 'from the sandbox\n' } },
  ])
  const link = await settled(await operate({ ...read, targetPath: 'inside' }))
  expect(link.attempts).toMatchObject([{ status: 'failed', report: { output: '' } }])
  const outside = await operate({ ...read, targetPath: '/etc/hostname' })
  expect(outside).toMatchObject({ decision: 'deny', rule: 'boundary', attempts: [] })
})

test('[APR4] [ATT8] [ATT12] [ATT20] [EXEC6] [EXEC9] a write asks; not the asker, another approves; twenty resumes are one execution in a worktree, and merging brings it', async () => {
  const asked = await operate({
    category: 'edit',
    operation: 'write-file',
    targetPath: 'made.txt',
    content: 'made\n',
  })
  expect(asked).toMatchObject({ decision: 'ask', attempts: [], plan: { strategy: 'git-worktree' } })
  expect((await runOf(box, run.id)).run.status).toBe('needs-human')
  expect((await resume(asked)).status).toBe(409)
  expect((await approve(asked, asker)).status).toBe(403)
  expect((await approve(asked, askersOther)).status).toBe(403)
  expect((await approve(asked)).status).toBe(200)
  expect((await approve(asked)).status).toBe(409)

  const answers = await Promise.all(Array.from({ length: 20 }, () => resume(asked)))
  const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b)
  expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 409)])
  const done = await settled(asked)
  expect(done.attempts).toMatchObject([{ status: 'succeeded', executor: 'git-worktree' }])
  const view = await runOf(box, run.id)
  const executions = entriesOf(view, 'operation-execution').filter(
    ({ operationId, status }) => operationId === asked.id && status === 'succeeded',
  )
  expect(executions).toHaveLength(1)
  expect(decisionsOf(view).filter(({ operationId }) => operationId === asked.id)).toHaveLength(1)
  expect(existsSync(box.folder('workspace/made.txt'))).toBe(false)

  const { items } = (await box.get('/artifacts')).json as { items: Artifact[] }
  const [file] = done.attempts[0]?.report?.files ?? []
  const artifact = items.find(({ sha256 }) => sha256 === file?.sha256)
  expect((await box.get(`/artifacts/${artifact?.id}`)).text).toContain('+made')
  const merge = () => api(stack(), 'POST', `/attempts/${done.attempts[0]?.id}/merge`)
  const first = (await merge()).json as MergeReport
  expect(first).toMatchObject({ merged: true, conflicts: [] })
  expect(readFileSync(box.folder('workspace/made.txt'), 'utf8')).toBe('made\n')
  expect((await merge()).json).toEqual(first)
})

test('[ATT17] [ATT20] [EXEC23] twenty admissions of a retry are one attempt, and twenty orders to execute it one execution', async () => {
  const missing = { category: 'read', operation: 'read-file', targetPath: 'later.txt' }
  const failed = await settled(await operate(missing))
  expect(failed.attempts).toMatchObject([{ status: 'failed' }])
  writeFileSync(box.folder('workspace/later.txt'), 'now there\n')
  const twenty = async (path: string, body?: object) => {
    const post = () => api(stack(), 'POST', path, body, asker)
    const answers = await Promise.all(Array.from({ length: 20 }, post))
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19)
    return answers.find(({ status }) => status < 300)?.json as unknown
  }
  const path = `/operations/${failed.id}/retries`
  expect((await api(stack(), 'POST', path, {}, asker)).status).toBe(409)
  const admitted = (await twenty(path, { policy: 'after-failure' })) as Attempt
  expect(admitted).toMatchObject({ status: 'reserved', dispatched: false, sequence: 2 })
  await twenty(`/attempts/${admitted.id}/execute`)
  expect((await settled(failed)).attempts).toMatchObject([
    { status: 'failed' },
    { id: admitted.id, status: 'succeeded', report: { output: 'now there\n' } },
  ])
})

test('[EXEC12] [EXEC14] a command has a network only where its plan says so, as far as the sandbox can enforce that', async () => {
  const { port } = new URL(stack().url)
  const lines = [`(exec 3<>/dev/tcp/127.0.0.1/${port}) 2>/dev/null`, 'echo "reached: $?"']
  writeFileSync(box.folder('workspace/probe.sh'), `${lines.join('\n')}\n`)
  const command = { category: 'shell', operation: 'run', command: 'bash probe.sh' }
  const online = await approved({ ...command, network: true })
  expect(online.attempts[0]?.report).toMatchObject({ status: 'succeeded', output: 'reached: 0\n' })
  const offline = await approved(command)
  expect(offline.plan).toMatchObject({ strategy: 'process-sandbox', network: false })
  const report = offline.attempts[0]?.report
  expect(report?.enforced.includes('network')).toBe(!offline.plan.notEnforced.includes('network'))
  expect(report?.output).toBe(
    report?.enforced.includes('network') ? 'reached: 1\n' : 'reached: 0\n',
  )
})

test('[ATT25] [EXEC27] what a worktree holds can be discarded, and then not merged', async () => {
  const file = {
    category: 'edit',
    operation: 'write-file',
    targetPath: 'dropped.txt',
    content: 'x',
  }
  const [attempt] = (await approved(file)).attempts
  const post = (step: string) => api(stack(), 'POST', `/attempts/${attempt?.id}/${step}`)
  const first = await post('discard')
  expect([first.status, first.json]).toMatchObject([200, { discarded: true }])
  expect((await post('discard')).json).toEqual(first.json)
  expect((await post('merge')).status).toBe(422)
  expect(existsSync(box.folder('workspace/dropped.txt'))).toBe(false)
})

test('[ATT22] [EXEC26] cancelling the run ends the command that it had sent to the sandbox', async () => {
  const created = await api(stack(), 'POST', `/sessions/${box.id}/runs`, { intent: 'To cancel' })
  run = created.json as Run
  const command = 'touch begun; sleep 300; touch after'
  const asked = await operate({ category: 'shell', operation: 'run', command, timeoutMs: 400_000 })
  expect((await approve(asked)).status).toBe(200)
  expect((await resume(asked)).status).toBe(200)
  await expect.poll(() => existsSync(box.folder('workspace/begun')), { timeout: 30_000 }).toBe(true)
  const finish = await api(stack(), 'POST', `/runs/${run.id}/finish`, { status: 'cancelled' })
  expect(finish.status).toBe(200)
  expect((await settled(asked)).attempts).toMatchObject([
    { status: 'failed', report: { error: 'It was cancelled', exitCode: null } },
  ])
  expect(existsSync(box.folder('workspace/after'))).toBe(false)
})
