import { beforeEach, describe, expect, test } from 'vitest'
import type { GateDecision } from '../../../../src/contract/ask.ts'
import type { Turn } from '../../../../src/contract/turn.ts'
import { agentEvent, approvalOf, question } from '../../../support/agent.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

let session: TestSession
let turn: Turn
beforeEach(async () => {
  session = new TestSession()
  await session.create({
    sandbox: 'local',
    gate: { deny: ['webfetch', 'both'], ask: ['bash', 'both'], askTimeoutSeconds: 60 },
  })
  await session.pass(0)
  await session.connect()
  turn = await session.actor.api.turns.prompt(testCaller, { text: 'go', steer: false }, null)
})

const id = (n: number) => `ask_${String(n).padStart(20, '0')}`
const ask = (n: number, tool = 'bash') => session.receive(question(id(n), tool))
const answers = () =>
  session.sent
    .filter((message) => message.t === 'answer')
    .map(({ askId, decision }) => [askId, decision])
const person = (n: number, decision: GateDecision) =>
  session.actor.api.approvals.resolve(testCaller, approvalOf(testSessionId, id(n)), {
    resolution: decision === 'allow' ? 'approved' : 'rejected',
    reason: '',
  })
const stored = async () =>
  (await session.actor.api.approvals.list(testCaller, null)).map(({ state, resolution }) => [
    state,
    resolution?.actor ?? null,
  ])
const decided = async () =>
  (await session.actor.api.log.events(testCaller, 0, 500))
    .filter(({ kind }) => kind === 'gate.decided')
    .map(({ data }) => data)

test('[GATE8] every decision is one event, with tool, decision, reason, actor and waiting time', async () => {
  await ask(1, 'webfetch')
  await ask(2, 'read')
  await ask(3)
  session.now += 500
  await person(3, 'allow')
  expect(await decided()).toMatchObject([
    { tool: 'webfetch', decision: 'deny', actor: 'rule', waitedMs: 0 },
    { tool: 'read', decision: 'allow', actor: 'rule', waitedMs: 0 },
    {
      tool: 'bash',
      decision: 'allow',
      actor: testCaller.keyId,
      reason: 'approved by tester',
      waitedMs: 500,
    },
  ])
})

test('[GATE10] a question is decided while libSQL is away, and its rows follow', async () => {
  session.ledger.away = true
  for (const [n, tool] of ['read', 'webfetch', 'bash'].entries()) await ask(n, tool)
  await person(2, 'allow')
  expect(answers()).toEqual([
    [id(0), 'allow'],
    [id(1), 'deny'],
    [id(2), 'allow'],
  ])
  session.ledger.away = false
  await session.pass(120_000)
  expect((await session.actor.api.self.view(testCaller)).outbox.pending).toBe(0)
})

test('[GATE3] asked again, a question is the same question with the same answer', async () => {
  await ask(1)
  await ask(1)
  expect(answers()).toEqual([])
  await person(1, 'allow')
  await expect(person(1, 'deny')).rejects.toMatchObject({ code: 'wrong_state' })
  await ask(1)
  expect(answers()).toEqual([
    [id(1), 'allow'],
    [id(1), 'allow'],
  ])
  expect(await decided()).toHaveLength(1)
})

test('[GATE2] each question has its own deadline, and the alarm stands at the first', async () => {
  await ask(1)
  session.now += 30_000
  await ask(2)
  expect(session.deadlines()['approval']).toBe(session.now + 30_000)
  await session.pass(30_000)
  expect(await stored()).toEqual([
    ['pending', null],
    ['rejected', 'deadline'],
  ])
  await expect(person(1, 'allow')).rejects.toMatchObject({ code: 'wrong_state' })
  await person(2, 'allow')
  expect(session.deadlines()).not.toHaveProperty('approval')
})

describe('[GATE4] what ends a turn denies every open ask first', () => {
  const ends: [name: string, actor: string, act: () => Promise<unknown>][] = [
    ['abort', 'abort', () => session.actor.api.self.abort(testCaller, '')],
    ['close', 'close', () => session.actor.api.self.close(testCaller, 'x')],
    ['replacement', 'replace', () => session.actor.api.sandbox.replace(testCaller, 'x')],
    [
      'the end of the turn',
      'turn-end',
      () =>
        session.receive({
          t: 'events',
          items: [
            agentEvent(1, 'turn.ended', {
              turnId: turn.id,
              state: 'completed',
              reason: null,
              text: null,
              diff: null,
            }),
          ],
        }),
    ],
    [
      'a failed delivery',
      'turn-end',
      () => session.receive({ t: 'result', commandId: turn.id, ok: false }),
    ],
    [
      'the loss of the sandbox',
      'sandbox-lost',
      () => session.receive({ t: 'failed', reason: 'x' }),
    ],
  ]
  test.each(ends)('%s', async (_, actor, act) => {
    await ask(1)
    await ask(2)
    await act()
    expect(await stored()).toEqual([
      ['cancelled', actor],
      ['cancelled', actor],
    ])
    expect(answers()).toEqual([
      [id(1), 'deny'],
      [id(2), 'deny'],
    ])
    expect(session.deadlines()).not.toHaveProperty('approval')
    await expect(person(1, 'allow')).rejects.toMatchObject({ code: 'wrong_state' })
  })

  test('denials are sent before the command that aborts', async () => {
    await ask(1)
    await session.actor.api.self.abort(testCaller, '')
    const kinds = session.sent.map((message) =>
      message.t === 'command' ? message.kind : message.t,
    )
    expect(kinds.indexOf('answer')).toBeLessThan(kinds.indexOf('abort'))
    await ask(2, 'read')
    expect(answers().at(-1)).toEqual([id(2), 'deny'])
  })
})

test('[GATE5] a question outlives the link and the instance; its answer waits for the agent to ask again', async () => {
  await ask(1)
  await session.cut()
  session.restart()
  await person(1, 'allow')
  await session.connect()
  expect(answers()).toEqual([])
  await ask(1)
  expect(answers()).toEqual([[id(1), 'allow']])
})

test('[GATE1] without a turn nothing runs', async () => {
  await session.receive({ t: 'result', commandId: turn.id, ok: false })
  await ask(9, 'read')
  expect(answers()).toEqual([[id(9), 'deny']])
})
