import type { Attempt, OperationRecord } from '../../src/contract/operation.ts'
import type { Approval } from '../../src/contract/approval.ts'
import type { RunEvent, TimelineCheck } from '../../src/contract/run.ts'
import type { Session } from '../../src/contract/session.ts'
import { groupBy } from './check-calls.ts'
import type { Execution } from './executions.ts'
import type { Operator, Work } from './operations.ts'
import type { Scene } from './scene.ts'

/** Every attempt was carried out once and ended as its agent said, the same in the session, its timeline and libSQL. */
export async function checkOperations(scene: Scene, counts: Record<string, number>): Promise<void> {
  for (const operator of scene.operators) {
    const { sessionId, runId } = operator.options
    await checkSandbox(scene, sessionId)
    const executions = executionsOf(scene, operator)
    const byLabel = groupBy(executions, ({ label }) => label)
    const timeline = groupBy(await timelineOf(scene, runId), ({ data }) =>
      String(data['operationId']),
    )
    const rows = await scene.db.all<{ id: string; status: string }>(
      'select id, status from operation_attempts where session_id = ?',
      sessionId,
    )
    const inLibsql = new Map(rows.map(({ id, status }) => [id, status]))
    for (const work of operator.works) {
      const path = `/v1/operations/${work.id}`
      const record = await scene.admin.json<OperationRecord>('GET', path)
      if (!record) scene.complain(`Operation ${work.id} was lost`)
      else {
        checkAttempts(scene, work, record.attempts, byLabel.get(work.label) ?? [], inLibsql)
        checkEntries(scene, work, record, timeline.get(work.id) ?? [])
        await checkApproval(scene, record)
      }
    }
    const verified = await scene.admin.json<TimelineCheck>('GET', `/v1/runs/${runId}/verify`)
    if (!verified?.ok) scene.complain(`The timeline of ${runId}: ${JSON.stringify(verified)}`)
    counts['operations'] = (counts['operations'] ?? 0) + operator.works.length
    counts['executions'] = (counts['executions'] ?? 0) + executions.length
  }
}

async function checkSandbox(scene: Scene, sessionId: string): Promise<void> {
  const session = await scene.admin.json<Session>('GET', `/v1/sessions/${sessionId}`)
  if (session?.sandbox.state !== 'ready')
    scene.complain(`The sandbox of ${sessionId}: ${JSON.stringify(session?.sandbox)}`)
}

export const executionsOf = ({ host }: Scene, { options }: Operator): Execution[] =>
  [...host.agents.values()]
    .filter((agent) => agent.options.sessionId === options.sessionId)
    .flatMap(({ executions }) => executions)

/** An attempt whose agent could not say how it ended was abandoned by a person. */
const endOf = ({ status }: Execution): Attempt['status'] =>
  status === 'unknown' ? 'abandoned' : status

function checkAttempts(
  scene: Scene,
  { id, label }: Work,
  attempts: Attempt[],
  executions: Execution[],
  inLibsql: Map<string, string>,
): void {
  const name = `${label} (${id})`
  const attempted = attempts.map((attempt) => attempt.id).toSorted()
  const executed = executions.map(({ attemptId }) => attemptId).toSorted()
  if (attempted.join() !== executed.join())
    scene.complain(`${name} has attempts ${attempted.join()}, executed were ${executed.join()}`)
  for (const attempt of attempts) {
    const execution = executions.find(({ attemptId }) => attemptId === attempt.id)
    const output = attempt.report?.output ?? null
    const isTrue =
      execution &&
      attempt.status === endOf(execution) &&
      (output === null ? execution.status === 'unknown' : output === execution.nonce)
    if (!isTrue)
      scene.complain(`${name}: ${JSON.stringify(attempt)} for ${JSON.stringify(execution)}`)
    if (inLibsql.get(attempt.id) !== attempt.status)
      scene.complain(
        `${attempt.id} is ${attempt.status}, in libSQL ${inLibsql.get(attempt.id) ?? 'unknown'}`,
      )
  }
}

/** Decided once; one entry for the end of each attempt. */
function checkEntries(
  scene: Scene,
  { id, label }: Work,
  { attempts }: OperationRecord,
  entries: RunEvent[],
): void {
  const decisions = entries.filter(({ kind }) => kind === 'permission-decision').length
  if (decisions !== 1) scene.complain(`${label} (${id}) was decided ${decisions} times`)
  for (const attempt of attempts) {
    const ends = entries.filter(
      ({ kind, data }) =>
        kind === 'operation-execution' &&
        data['attemptId'] === attempt.id &&
        data['status'] === attempt.status,
    )
    if (ends.length !== 1) scene.complain(`${attempt.id} ended ${ends.length} times`)
  }
}

async function checkApproval(scene: Scene, { approvalId }: OperationRecord): Promise<void> {
  if (approvalId === null) return
  const approval = await scene.admin.json<Approval>('GET', `/v1/approvals/${approvalId}`)
  if (approval?.state !== 'approved' || approval.votes.length !== 1)
    scene.complain(`${approvalId} is ${approval?.state} by ${approval?.votes.length} votes`)
}

async function timelineOf(scene: Scene, runId: string): Promise<RunEvent[]> {
  const all: RunEvent[] = []
  for (let cursor: string | null = '0'; cursor !== null;) {
    const page: { items: RunEvent[]; nextCursor: string | null } | null = await scene.admin.json(
      'GET',
      `/v1/runs/${runId}/events?limit=100&cursor=${cursor}`,
    )
    all.push(...(page?.items ?? []))
    cursor = page?.nextCursor ?? null
  }
  return all
}
