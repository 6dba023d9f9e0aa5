import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Gate } from '../../sandbox-agent/gate.ts'
import { Memory } from '../../sandbox-agent/memory.ts'
import type { OpenCode } from '../../sandbox-agent/opencode.ts'
import { Turns } from '../../sandbox-agent/turns.ts'
import { temporaryFolder } from './support.ts'

const prompt = { turnId: 'trn_1', messageId: 'msg_1', text: 'Hello', steer: false }

/** An OpenCode that is idle, and is there once `arrive` is called. */
function setUp(messages: object[] = []) {
  const requests: string[] = []
  const bodies: unknown[] = []
  const emitted: { kind: string; data: object }[] = []
  const answers: Record<string, unknown> = {
    '/session': { id: 'ses_1' },
    '/session/status': {},
    '/session/ses_1/children': [],
    '/session/ses_1/message': messages,
  }
  const opencode = {
    request: async (method: string, path: string, body?: unknown) => {
      requests.push(`${method} ${path}`)
      if (path.endsWith('/prompt_async')) bodies.push(body)
      return answers[path] ?? null
    },
  } as unknown as OpenCode
  const { promise, resolve } = Promise.withResolvers<OpenCode>()
  const memory = new Memory(join(temporaryFolder(), 'memory.json'))
  let forget = () => {}
  const turns = new Turns({
    emit: (kind, data) => void emitted.push({ kind, data }),
    gate: new Gate(() => {}),
    memory,
    opencode: () => promise,
    beforePrompt: async () => {},
    diff: async () => null,
    killOpenCode: () => {},
    afterTurn: (work) => void (forget = work),
    title: 'Test',
  })
  const arrive = () => resolve(opencode)
  return { turns, memory, requests, bodies, emitted, arrive, forget: () => forget() }
}

it('[TURN8] a turn that is aborted while its prompt waits for OpenCode is never sent', async () => {
  const { turns, requests, emitted, arrive } = setUp()
  const prompted = turns.prompt(prompt)
  await turns.abort('trn_1')
  arrive()
  expect(await prompted).toEqual({ sent: false })
  await expect
    .poll(() => emitted, { timeout: 10_000 })
    .toMatchObject([{ kind: 'turn.ended', data: { turnId: 'trn_1', state: 'aborted' } }])
  expect(requests.filter((line) => line.includes('prompt_async'))).toEqual([])
})

it('[LIFE7] what the model must know first goes before what the user said, and is marked as not theirs', async () => {
  const { turns, bodies, arrive } = setUp()
  arrive()
  await turns.prompt({ ...prompt, notice: 'The sandbox is a new one' })
  expect(bodies).toEqual([
    {
      messageID: 'msg_1',
      parts: [
        { type: 'text', text: 'The sandbox is a new one', synthetic: true },
        { type: 'text', text: 'Hello' },
      ],
    },
  ])
  await turns.abortAndWait('the test is over', 10_000)
})

it('[BOX10] a turn that ends because its sandbox is stopped was interrupted: nobody has aborted it', async () => {
  const { turns, emitted, arrive } = setUp()
  arrive()
  await turns.prompt(prompt)
  await turns.abortAndWait('received SIGTERM', 10_000)
  expect(emitted).toMatchObject([{ data: { turnId: 'trn_1', state: 'interrupted' } }])
})

it('[TURN8] aborted before its sandbox is stopped, it stays aborted', async () => {
  const { turns, emitted, arrive } = setUp()
  arrive()
  await turns.prompt(prompt)
  await turns.abort('trn_1', 'enough')
  await turns.abortAndWait('received SIGTERM', 10_000)
  expect(emitted).toMatchObject([{ data: { state: 'aborted', reason: 'enough' } }])
})

it('[TURN6] a turn is remembered until its end is on the disk, and then not in the place of the next', async () => {
  const { turns, memory, emitted, arrive, forget } = setUp()
  arrive()
  await turns.prompt(prompt)
  await turns.abortAndWait('received SIGTERM', 10_000)
  expect(emitted).toMatchObject([{ kind: 'turn.ended' }])
  expect(memory.value.turn).toMatchObject({ turnId: 'trn_1' })
  await turns.prompt({ ...prompt, turnId: 'trn_2', messageId: 'msg_2' })
  forget()
  expect(memory.value.turn).toMatchObject({ turnId: 'trn_2' })
  await turns.abortAndWait('the test is over', 10_000)
  forget()
  expect(memory.value.turn).toBeNull()
})

const left = { turnId: 'trn_1', messageIds: ['msg_1'], startedAt: 0 }
const part = { id: 'prt_1', sessionID: 'ses_1', messageID: 'msg_2', type: 'tool', callID: 'c' }
const state = { status: 'completed', input: {}, output: 'done', title: '', time: {} }
const worked = [
  { info: { id: 'msg_1', sessionID: 'ses_1', role: 'user' }, parts: [] },
  {
    info: { id: 'msg_2', sessionID: 'ses_1', role: 'assistant', parentID: 'msg_1' },
    parts: [{ ...part, tool: 'write', state }],
  },
]

it('[TURN6] after a restart of the agent a turn is interrupted; what ran with the consent of a gate that is forgotten is no bypass', async () => {
  const { turns, memory, emitted, arrive } = setUp(worked)
  memory.save({ turn: left, opencodeSessionId: 'ses_1' })
  arrive()
  await turns.endForgotten({ started: ['prt_1'], ended: [], over: false })
  expect(emitted.map(({ kind }) => kind)).toEqual(['tool.completed', 'turn.ended'])
  expect(emitted.at(-1)?.data).toMatchObject({ turnId: 'trn_1', state: 'interrupted' })
  expect(memory.value.announceLoss).toBe(true)
})

it('[TURN6] after a restart of the agent a turn whose end was told does not end again', async () => {
  const { turns, memory, emitted } = setUp(worked)
  memory.save({ turn: left })
  await turns.endForgotten({ started: [], ended: [], over: true })
  expect(emitted).toEqual([])
  expect(memory.value).toMatchObject({ turn: null, announceLoss: false })
})
