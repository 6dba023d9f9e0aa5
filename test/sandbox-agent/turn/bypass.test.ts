import { afterEach, describe, expect, it, vi } from 'vitest'
import { BetweenTurns } from '../../../sandbox-agent/turn/between-turns.ts'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { prompt, second, turnWorld } from './turn-kit.ts'

type Status = 'running' | 'completed' | 'error'
const toolEvent = (status: Status, start: number, more: object = {}) => ({
  type: 'message.part.updated',
  properties: { part: toolPart(status, start, more) },
})
const toolPart = (status: Status, start: number, more: object = {}) => ({
  ...{ id: 'prt_x', sessionID: 'ses_x', messageID: 'msg_x', type: 'tool', tool: 'bash' },
  callID: 'call_x',
  state: { status, input: { command: 'id' }, output: '', title: '', time: { start }, ...more },
})
const question = {
  ...{ askId: `ask_${'1'.repeat(20)}`, tool: 'bash', callId: 'call_x', sessionID: 'ses_x' },
  input: { command: 'id' },
}
const bypassed = ({ emitted }: ReturnType<typeof turnWorld>) =>
  emitted.filter(({ kind }) => kind === 'gate.bypassed').map(({ data }) => data)

describe('[GATE16] [GATE6] a tool of a session that somebody has begun beside the turn', () => {
  it('is a bypass without a decision: the turn is aborted, and so is that session', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    world.turns.hear(toolEvent('completed', Date.now()))
    expect(bypassed(world)).toMatchObject([
      { turnId: 'trn_1', sessionId: 'ses_x', tool: 'bash', input: { command: 'id' } },
    ])
    await expect.poll(() => world.ended()).toMatchObject([{ turnId: 'trn_1', state: 'aborted' }])
    expect(world.opencode.requests).toContain('POST /session/ses_x/abort')
  })

  it('is on record, and no bypass, if it was decided', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    void world.gate.ask(question, 1)
    world.gate.answer(question.askId, { decision: 'allow', reason: '' })
    world.turns.hear(toolEvent('completed', Date.now()))
    expect(bypassed(world)).toEqual([])
    expect(world.emitted.map(({ kind }) => kind)).toEqual(['tool.started', 'tool.completed'])
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('is found in the list of all sessions if the stream has missed it', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    const time = { created: Date.now() }
    world.opencode.others = {
      ses_x: [
        {
          info: { id: 'msg_x', sessionID: 'ses_x', role: 'assistant', time },
          parts: [toolPart('completed', Date.now())],
        },
      ],
    }
    world.opencode.answer()
    await expect.poll(() => world.ended()).toHaveLength(1)
    expect(bypassed(world)).toMatchObject([{ turnId: 'trn_1', sessionId: 'ses_x' }])
  })

  it('is none of the turn’s if it began before: OpenCode touches old parts when it tidies up', async () => {
    const world = turnWorld()
    const before = Date.now() - 1000
    await world.turns.prompt(prompt)
    world.turns.hear(toolEvent('completed', before))
    expect(bypassed(world)).toEqual([])
    await world.turns.abortAndWait('the test is over', 10_000)
  })
})

describe('[GATE16] between turns', () => {
  it('a tool that runs is a bypass of the turn before, and OpenCode is killed', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    world.opencode.answer()
    await expect.poll(() => world.ended()).toHaveLength(1)
    // What ended late began in the turn.
    world.turns.hear(toolEvent('completed', Date.now() - 60_000))
    expect(bypassed(world)).toEqual([])
    await expect
      .poll(() => {
        world.turns.hear(toolEvent('completed', Date.now()))
        return bypassed(world)
      })
      .toMatchObject([{ turnId: 'trn_1', sessionId: 'ses_x', partId: 'prt_x' }])
    expect(world.kills).toEqual(['killed'])
    // Once, and the next prompt is worked on.
    world.turns.hear(toolEvent('completed', Date.now()))
    expect(bypassed(world)).toHaveLength(1)
    expect(await world.turns.prompt(second)).toEqual({ sent: true })
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('one that asks and is refused is none', () => {
    const { between, gate, told } = idle()
    between.hear(toolEvent('running', Date.now()), true)
    void gate.ask(question, 1)
    between.hear(toolEvent('error', Date.now(), { error: 'Gantry refused "bash"' }), true)
    expect(told).toEqual([])
  })

  afterEach(() => void vi.useRealTimers())

  it('one that runs for ten seconds without having asked is one, also if a turn begins meanwhile', () => {
    vi.useFakeTimers()
    const { between, gate, told } = idle()
    between.hear(toolEvent('running', Date.now()), true)
    vi.advanceTimersByTime(9000)
    between.turnBegins('trn_2')
    gate.open('trn_2')
    between.hear(toolEvent('running', Date.now()), false)
    expect(told).toEqual([])
    vi.advanceTimersByTime(1000)
    expect(told).toEqual(['trn_2 ses_x', 'killed'])
  })

  it('one that ends in the turn that has begun meanwhile is one at once', () => {
    const { between, gate, told } = idle()
    between.hear(toolEvent('running', Date.now()), true)
    between.turnBegins('trn_2')
    gate.open('trn_2')
    between.hear(toolEvent('completed', 0), false)
    expect(told).toEqual(['trn_2 ses_x', 'killed'])
  })

  it('one that had asked before that turn is none', () => {
    vi.useFakeTimers()
    const { between, gate, told } = idle()
    between.hear(toolEvent('running', Date.now()), true)
    void gate.ask(question, 1)
    between.turnBegins('trn_2')
    gate.open('trn_2')
    vi.advanceTimersByTime(60_000)
    expect(told).toEqual([])
  })

  function idle() {
    const told: string[] = []
    const gate = new Gate(() => undefined)
    const between = new BetweenTurns({
      gate,
      emit: (_, data) => {
        const { turnId, sessionId } = data as { turnId: string; sessionId: string }
        told.push(`${turnId} ${sessionId}`)
      },
      killOpenCode: async () => void told.push('killed'),
    })
    return { between, gate, told }
  }
})
