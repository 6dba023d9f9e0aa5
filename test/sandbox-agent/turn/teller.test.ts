import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { historyRecordText } from '../../../sandbox-agent/evidence/history-rows.ts'
import type { Message } from '../../../sandbox-agent/opencode/transcript.ts'
import { Teller } from '../../../sandbox-agent/turn/teller.ts'
import type { OpenCodeEvent } from '../../../sandbox-agent/opencode/opencode.ts'
import { shorten } from '../../../sandbox-agent/shorten.ts'
import type { ToldParts } from '../../../sandbox-agent/memory/spool.ts'
import { agentEventKinds, maxEventBytes } from '../../../src/contract/agent-events.ts'

/** Event streams and message lists of real turns of OpenCode. */
interface Recording {
  rootSession: string
  events: OpenCodeEvent[]
  messages: Record<string, Message[]>
}
const recordings = ['tools-and-sub-agent', 'aborted', 'streamed-text', 'model-error'] as const
const load = (name: (typeof recordings)[number]) =>
  JSON.parse(
    readFileSync(new URL(`../opencode/recordings/${name}.json`, import.meta.url), 'utf8'),
  ) as Recording

interface Told {
  kind: string
  data: Record<string, unknown>
}

function tell(
  recording: Recording,
  options: { drop?: (index: number) => boolean; told?: ToldParts; since?: number } = {},
) {
  const events: Told[] = []
  const clock = { now: 0 }
  const teller = new Teller(
    {
      turnId: 't1',
      rootSession: recording.rootSession,
      since: options.since ?? Infinity,
      emit: (kind, data) => {
        agentEventKinds[kind].parse(data)
        events.push({ kind, data })
      },
      onTool: () => {},
      ...(options.told && { told: options.told }),
    },
    () => clock.now,
  )
  for (const [index, event] of recording.events.entries()) {
    clock.now += 10
    if (options.drop?.(index) !== true) teller.hear(event)
    teller.tick()
  }
  for (const messages of Object.values(recording.messages))
    teller.reconcile(messages, 'Interrupted')
  return events
}

const ends = (events: Told[]) =>
  events
    .filter(({ kind }) => kind !== 'message.delta' && kind !== 'tool.started')
    .map(({ kind, data }) => `${String(data['partId'])} ${kind}`)
const brief = ({ kind, data }: Told) =>
  `${kind} ${String(data['tool'] ?? data['text'] ?? data['reason'])}`.trim()

describe('the telling of a turn', () => {
  it('gives texts, reasoning, tools and steps, those of sub-agents too', () => {
    const events = tell(load('tools-and-sub-agent'))
    expect(events.filter(({ kind }) => kind !== 'message.delta').map(brief)).toMatchInlineSnapshot(`
      [
        "message.text think hard",
        "tool.started bash",
        "tool.started task",
        "message.text Hello there now",
        "tool.completed bash",
        "tool.started bash",
        "tool.completed bash",
        "step.finished tool-calls",
        "message.text child done",
        "step.finished stop",
        "tool.completed task",
        "step.finished tool-calls",
        "tool.started invalid",
        "tool.completed invalid",
        "tool.started bash",
        "tool.failed bash",
        "tool.started write",
        "tool.completed write",
        "step.finished tool-calls",
        "message.text fin",
        "step.finished stop",
      ]
    `)
  })

  it("gives an aborted command's end once, as OpenCode states it", () => {
    const tools = tell(load('aborted')).filter(({ kind }) => kind.startsWith('tool.'))
    expect(tools.map(({ kind }) => kind)).toEqual(['tool.started', 'tool.completed'])
    expect(tools[1]?.data['output']).toContain('aborted')
  })

  it('[CHG9] gives the hash of what a tool that changes files was told and has said, of its whole input', () => {
    const recording = load('tools-and-sub-agent')
    const isWrite = ({ kind, data }: Told) =>
      kind === 'tool.completed' && (data['tool'] === 'write' || data['tool'] === 'bash')
    const ended = tell(recording).filter(isWrite)
    expect(ended.map(({ data }) => [data['tool'], typeof data['recordHash']])).toContainEqual([
      ...['write', 'string'],
    ])
    for (const { data } of ended) {
      const { state } = Object.values(recording.messages)
        .flat()
        .flatMap(({ parts }) => parts)
        .find(({ id }) => id === data['partId'])!
      const whole = createHash('sha256').update(historyRecordText(state!)).digest('hex')
      expect(data['recordHash']).toBe(data['tool'] === 'write' ? whole : undefined)
    }
  })

  it('gives a tool that never came to an end as failed', () => {
    const recording = load('aborted')
    const unfinished = structuredClone(recording.messages)
    for (const { parts } of Object.values(unfinished).flat()) {
      for (const { state } of parts) if (state) state.status = 'running'
    }
    const events = tell({ ...recording, events: [], messages: unfinished })
    const failed = events.filter(({ kind }) => kind === 'tool.failed')
    expect(failed.map(({ data }) => data['error'])).toEqual(['Interrupted'])
  })

  it.each(recordings)(
    '%s: each end state exactly once, however much of the stream is lost',
    (name) => {
      const recording = load(name)
      const whole = ends(tell(recording)).sort()
      expect(new Set(whole).size).toBe(whole.length)
      for (let keep = 0; keep < recording.events.length; keep += 7) {
        expect(ends(tell(recording, { drop: (index) => index >= keep })).sort()).toEqual(whole)
        expect(ends(tell(recording, { drop: (index) => index % 3 === keep % 3 })).sort()).toEqual(
          whole,
        )
      }
    },
  )

  it.each(recordings)('%s: hearing the stream twice tells nothing twice', (name) => {
    const recording = load(name)
    const twice = { ...recording, events: [...recording.events, ...recording.events] }
    expect(ends(tell(twice)).sort()).toEqual(ends(tell(recording)).sort())
  })

  it('tells only the rest after a restart of the agent', () => {
    const recording = load('tools-and-sub-agent')
    const whole = tell(recording)
    const before = whole.slice(0, 8)
    const partIds = (kinds: string[]) =>
      before.filter(({ kind }) => kinds.includes(kind)).map(({ data }) => String(data['partId']))
    const told = {
      started: partIds(['tool.started']),
      ended: partIds(['message.text', 'tool.completed', 'tool.failed', 'step.finished']),
      over: false,
    }
    const rest = tell(recording, { told })
    expect([...ends(before), ...ends(rest)].sort()).toEqual(ends(whole).sort())
  })

  it('coalesces deltas to at most four a second per part', () => {
    const recording = load('streamed-text')
    const deltas = tell(recording).filter(({ kind }) => kind === 'message.delta')
    const seconds = (recording.events.length * 10) / 1000
    expect(deltas.length).toBeGreaterThan(1)
    expect(deltas.length).toBeLessThanOrEqual(Math.ceil(seconds * 4) + 1)
    const [text] = tell(recording).filter(({ kind }) => kind === 'message.text')
    expect(
      String(text?.data['text']).startsWith(deltas.map(({ data }) => data['delta']).join('')),
    ).toBe(true)
  })

  it("leaves out the user's text, and other sessions from before the turn", () => {
    const recording = load('streamed-text')
    const texts = tell(recording).filter(({ kind }) => kind === 'message.text')
    expect(texts).toHaveLength(1)
    expect(tell({ ...recording, rootSession: 'ses_other', messages: {} })).toEqual([])
  })
})

it('[GATE16] tells what other sessions do meanwhile, also where the stream has not told their messages', () => {
  const recording = load('tools-and-sub-agent')
  const foreign = { ...recording, rootSession: 'ses_other', messages: {} }
  const whole = ends(tell(foreign, { since: 0 }))
  expect(whole).toEqual(ends(tell({ ...recording, messages: {} })))
  const isMessage = (index: number) => recording.events[index]?.type === 'message.updated'
  const tools = (told: string[]) => told.filter((each) => each.includes(' tool.'))
  expect(tools(ends(tell(foreign, { since: 0, drop: isMessage })))).toEqual(tools(whole))
})

describe('shortening', () => {
  const size = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

  it('leaves alone what fits', () => {
    const value = { output: 'short' }
    expect(shorten(value)).toEqual({ value, shortened: false })
  })

  it.each([
    ['one long text', { tool: 'bash', output: 'ä'.repeat(1_000_000) }],
    ['a long text deep inside', { input: { files: [{ content: '"\n'.repeat(500_000) }] } }],
    ['very many short texts', { tool: 'x', input: Array.from({ length: 100_000 }, () => 'abc') }],
  ])('makes %s fit', (_name, value) => {
    const result = shorten(value)
    expect(result.shortened).toBe(true)
    expect(size(result.value)).toBeLessThan(maxEventBytes)
  })

  it('cuts no character in two', () => {
    const { value } = shorten({ output: `a${'😀'.repeat(300_000)}` })
    expect(value.output.isWellFormed()).toBe(true)
  })
})
