import type { EventData, EventKind } from '../../src/contract/events.ts'
import { agentEvent } from './agent.ts'
import { testCaller, TestSession, testSessionId } from './session.ts'

/** A session whose sandbox is there and ready. */
export async function readySession(input: Record<string, unknown> = {}): Promise<TestSession> {
  const session = new TestSession()
  await session.create({ sandbox: 'local', ...input })
  await session.pass(0)
  await session.connect()
  return session
}

export const viewOf = (session: TestSession) => session.actor.api.self.view(testCaller)
export const sandboxOf = async (session: TestSession) => (await viewOf(session)).sandbox

export function eventsOf<K extends EventKind>(session: TestSession, kind: K): EventData<K>[] {
  return session.sql
    .all<{ data: string }>('select data from events where kind = ? order by seq', kind)
    .map(({ data }) => JSON.parse(data) as EventData<K>)
}

/** What the provider runs. */
export const runningIn = (session: TestSession) =>
  [...session.sandboxes.running.values()].map(({ spec }) => spec.generation)

/** The machine is gone, and the link with it; the provider says so when it is asked. */
export async function vanish(session: TestSession, generation = 1): Promise<void> {
  session.sandboxes.running.clear()
  await session.cut(generation)
  await session.pass(2000)
}

export const prompt = (session: TestSession, text = 'go') =>
  session.actor.api.turns.prompt(testCaller, { text, steer: false }, null)

/** The agent has handed the prompt to OpenCode. */
export const takePrompt = (session: TestSession, turnId: string, generation = 1) =>
  session.receive({ t: 'result', commandId: turnId, ok: true, data: { sent: true } }, generation)

/** A turn that is being worked on. */
export async function work(session: TestSession): Promise<string> {
  const { id } = await prompt(session)
  await takePrompt(session, id)
  return id
}

/** The agent answers a prompt and ends its turn. */
export async function answer(
  session: TestSession,
  turnId: string,
  { seq, text = 'done', generation = 1 }: { seq: number; text?: string; generation?: number },
): Promise<void> {
  await takePrompt(session, turnId, generation)
  const data = { turnId, state: 'completed', reason: null, text, diff: null }
  await session.receive({ t: 'events', items: [agentEvent(seq, 'turn.ended', data)] }, generation)
}

export async function turn(session: TestSession, seq: number, generation = 1): Promise<void> {
  const { id } = await prompt(session, `prompt ${seq}`)
  await answer(session, id, { seq, text: `answer ${seq}`, generation })
}

/** As the tool save_snapshot has stored it. */
export async function storeSnapshot(session: TestSession, letter: string): Promise<string> {
  const id = `snp_${letter.repeat(20)}`
  const { sandbox } = await viewOf(session)
  await session.sandboxes.snapshot({
    snapshotId: id,
    organisationId: testCaller.organisationId,
    sessionId: testSessionId,
    generation: sandbox.generation,
    secrets: [],
  })
  session.sql.run(
    `insert into snapshots (id, target, bytes, message, created_at, generation)
     values (?, 'session', 1, '', ?, ?)`,
    id,
    session.now,
    sandbox.generation,
  )
  return id
}
