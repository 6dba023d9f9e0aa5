import { beforeEach, describe, expect, it } from 'vitest'
import { Gate, type ToolPart } from '../../../sandbox-agent/gate/gate.ts'
import type { Part } from '../../../sandbox-agent/opencode/transcript.ts'
import { tellerSession, Teller } from '../../../sandbox-agent/turn/teller.ts'
import { ToolCheck } from '../../../sandbox-agent/turn/tool-check.ts'

let events: { kind: string; data: Record<string, unknown> }[]
let tools: ToolPart[]
let now: number
let teller: Teller
beforeEach(() => {
  events = []
  tools = []
  now = 1000
  teller = new Teller(
    {
      turnId: 't1',
      rootSession: 'root',
      since: 1,
      emit: (kind, data) => void events.push({ kind, data }),
      onTool: (part) => void tools.push(part),
    },
    () => now,
  )
})
const hear = (type: string, properties: Record<string, unknown>) =>
  teller.hear({ type, properties })
const message = (id: string, sessionID = 'root', role = 'assistant') =>
  hear('message.updated', { info: { id, sessionID, role } })
const names = (id: string, messageID = 'm1', sessionID = 'root') => ({ id, messageID, sessionID })
const part = (properties: Record<string, unknown>) =>
  hear('message.part.updated', { part: properties })
const kinds = () => events.map(({ kind }) => kind)
const told = { turnId: 't1', sessionId: 'root', messageId: 'm1', partId: 'p' }

describe('what is told', () => {
  it('[EVT4] is of this session and those below it, however OpenCode tells of them', () => {
    hear('session.updated', { info: { id: 'child', parentID: 'root' } })
    hear('session.created', { info: { id: 'grandchild', parentID: 'child' } })
    hear('session.updated', { info: { id: 'other', parentID: 'stranger' } })
    expect([...teller.sessions]).toEqual(['root', 'child', 'grandchild'])
    message('m1', 'grandchild')
    message('m2', 'other')
    message('m3', 'root', 'user')
    for (const messageID of ['m1', 'm2', 'm3'])
      part({ ...names(`p-${messageID}`, messageID), type: 'text', text: 'x', time: { end: 1 } })
    expect(events.map(({ data }) => data['partId'])).toEqual(['p-m1'])
  })

  it('[EVT4] a text is told once, at its end, and no delta after it', () => {
    message('m1')
    const delta = { sessionID: 'root', messageID: 'm1', partID: 'p', field: 'text', delta: 'a' }
    hear('message.part.delta', delta)
    part({ ...names('p'), type: 'text', text: 'ab', time: {} })
    expect(kinds()).toEqual(['message.delta'])
    for (const _ of ['once', 'twice'])
      part({ ...names('p'), type: 'text', text: 'ab', time: { end: 5 } })
    now += 10_000
    hear('message.part.delta', delta)
    teller.tick()
    expect(events.slice(1)).toEqual([
      { kind: 'message.text', data: { ...told, text: 'ab', reasoning: false } },
    ])
  })

  it('[EVT4] a text without an end, and nothing of what is no assistant, is told at the last', () => {
    const parts = [
      { ...names('p'), type: 'text', text: 'half' },
      { ...names('q'), type: 'reasoning', text: 'why' },
      { ...names('r'), type: 'text' },
    ] as unknown as Part[]
    const info = { id: 'm1', sessionID: 'root' }
    teller.reconcile([{ info: { ...info, role: 'user' }, parts }], 'Interrupted')
    expect(events).toEqual([])
    teller.reconcile([{ info: { ...info, role: 'assistant' }, parts }], 'Interrupted')
    expect(events.map(({ data }) => [data['partId'], data['text'], data['reasoning']])).toEqual([
      ['p', 'half', false],
      ['q', 'why', true],
    ])
  })

  it('[EVT4] a tool has its call, output and duration; what is missing is empty', () => {
    message('m1')
    const state = { status: 'completed', input: { a: 1 }, title: 'T', output: 'out' }
    const call = { type: 'tool', tool: 'bash', callID: 'c' }
    part({ ...names('p'), ...call, state: { ...state, time: { start: 5, end: 12 } } })
    part({ ...names('q'), ...call, state: { status: 'completed', time: { end: 9 } } })
    part({ ...names('r'), ...call, state: { status: 'error', error: 'no' } })
    const about = { ...told, tool: 'bash', callId: 'c' }
    expect(tools[0]).toEqual({ ...about, input: { a: 1 }, sessionID: 'root' })
    expect(events.filter(({ kind }) => kind !== 'tool.started')).toEqual([
      {
        kind: 'tool.completed',
        data: {
          ...{ ...about, input: { a: 1 }, title: 'T', output: 'out' },
          ...{ truncated: false, durationMs: 7 },
        },
      },
      {
        kind: 'tool.completed',
        data: {
          ...{ ...about, partId: 'q', input: null, title: '', output: '' },
          ...{ truncated: false, durationMs: 0 },
        },
      },
      {
        kind: 'tool.failed',
        data: { ...about, partId: 'r', input: null, error: 'no', durationMs: 0 },
      },
    ])
  })

  it('[EVT4] a tool of which OpenCode says nothing has failed at the last', () => {
    const parts = [{ ...names('p'), type: 'tool', tool: 'bash', callID: 'c' }] as unknown as Part[]
    const info = { id: 'm1', sessionID: 'root', role: 'assistant' }
    teller.reconcile([{ info, parts }], 'Interrupted')
    expect(events).toMatchObject([
      { kind: 'tool.failed', data: { durationMs: 0, error: 'Interrupted' } },
    ])
  })

  it('[BUD6] a step has all its tokens; a vendor that does not count has none', () => {
    message('m1')
    const tokens = { input: 1, output: 2, reasoning: 3, cache: { read: 4, write: 5 } }
    part({ ...names('p'), type: 'step-finish', reason: 'stop', tokens, cost: 0.5 })
    part({ ...names('q'), type: 'step-finish', tokens: { input: 1, output: 2 } })
    part({ ...names('r'), type: 'step-finish' })
    const none = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
    expect(events.map(({ data }) => [data['reason'], data['tokens'], data['cost']])).toEqual([
      ['stop', { input: 1, output: 2, reasoning: 3, cacheRead: 4, cacheWrite: 5 }, 0.5],
      ['', { ...none, input: 1, output: 2 }, 0],
      ['', none, 0],
    ])
  })
})

it('[CHG9] the end of a step has the trees before and after it, as far as they were heard', () => {
  const events: Record<string, unknown>[] = []
  const teller = new Teller({
    ...{ turnId: 't', rootSession: 'root', since: 0, onTool: () => undefined },
    emit: (_, data) => void events.push(data),
  })
  const [from, to] = ['a'.repeat(40), 'b'.repeat(40)]
  const parts = (messageID: string, ...own: object[]) =>
    own.map((each, at) => ({ id: `${messageID}${at}`, messageID, sessionID: 'root', ...each }))
  const all = [
    parts('m1', { type: 'step-start', snapshot: from }, { type: 'step-finish', snapshot: to }),
    parts('m2', { type: 'step-finish', snapshot: to }),
    parts('m3', { type: 'step-start', snapshot: '../x' }, { type: 'step-finish' }),
  ] as unknown as Part[][]
  teller.reconcile(
    all.map((own, at) => ({
      info: { id: `m${at + 1}`, sessionID: 'root', role: 'assistant' },
      parts: own,
    })),
    'Interrupted',
  )
  expect(events.map(({ snapshots }) => snapshots)).toEqual([
    { from, to },
    { to },
    { from: null, to: null },
  ])
})

it('[EVT4] the session of an event is found wherever OpenCode puts it', () => {
  const of = (properties: Record<string, unknown>) => tellerSession({ type: 'x', properties })
  expect([
    of({ sessionID: 'a', part: { sessionID: 'b' } }),
    of({ part: { sessionID: 'b' }, info: { sessionID: 'c', id: 'd' } }),
    of({ info: { sessionID: 'c', id: 'd' } }),
    of({ info: { id: 'd' } }),
    of({}),
  ]).toEqual(['a', 'b', 'c', 'd', undefined])
})

describe('a tool that was not asked about', () => {
  const see = (state: object, isLive = true) => {
    const gate = new Gate(() => {})
    gate.open('t1')
    const bypassed: string[] = []
    const check = new ToolCheck(
      gate,
      () => isLive,
      ({ partId }) => void bypassed.push(partId),
    )
    const called = { ...{ partId: 'p', messageId: 'm', sessionID: 's' }, tool: 'bash', callId: 'c' }
    for (const _ of ['once', 'twice']) check.see({ ...called, input: {} }, state as never)
    return bypassed
  }

  it('[GATE6] has got past the gate if it has run, and is reported once', () => {
    expect(see({ status: 'completed' })).toEqual(['p'])
    expect(see({ status: 'error', error: 'exit 1' })).toEqual(['p'])
    expect(see({ status: 'error' })).toEqual(['p'])
  })

  it('[GATE6] has not if it was refused, interrupted or aborted, is still running, or its turn is over', () => {
    expect(see({ status: 'error', error: 'Gantry refused: no' })).toEqual([])
    expect(see({ status: 'error', error: 'Tool execution aborted' })).toEqual([])
    expect(see({ status: 'error', metadata: { interrupted: true } })).toEqual([])
    expect(see({ status: 'running' })).toEqual([])
    expect(see({ status: 'pending', error: 'exit 1' })).toEqual([])
    expect(see({ status: 'error', error: 'exit 1' }, false)).toEqual([])
  })
})
