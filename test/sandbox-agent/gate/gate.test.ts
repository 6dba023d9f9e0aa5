import { describe, expect, it } from 'vitest'
import { type Ask, Gate, hashInput } from '../../../sandbox-agent/gate/gate.ts'
import { canonicalJson } from '../../../src/contract/canonical.ts'
import { hashText } from '../../../src/core/hash.ts'

const allow = { decision: 'allow', reason: '' } as const
const question = (askId: string, input: unknown = { command: 'ls' }) => ({
  askId,
  tool: 'bash',
  callId: 'call_1',
  sessionID: 'ses_a',
  input,
})
const part = (partId: string, input: unknown = { command: 'ls' }) => ({
  partId,
  messageId: 'msg_1',
  sessionID: 'ses_a',
  tool: 'bash',
  callId: 'call_1',
  input,
})

function openGate() {
  const asked: Ask[] = []
  const clock = { now: 1000 }
  const gate = new Gate(
    (ask) => asked.push(ask),
    () => clock.now,
  )
  gate.open('trn_1')
  return { gate, asked, clock }
}

describe('the gate', () => {
  it('asks once per id and answers everybody who waits', async () => {
    const { gate, asked } = openGate()
    const waiting = [gate.ask(question('a'), 1000), gate.ask(question('a'), 1000)]
    gate.answer('a', allow)
    expect(await Promise.all(waiting)).toEqual([allow, allow])
    expect(asked).toHaveLength(1)
  })

  it('[GATE3] sends a question again that is still open after 30 s, and none that is answered', async () => {
    const { gate, asked, clock } = openGate()
    const poll = () => gate.ask(question('a'), 1)
    await poll()
    clock.now += 29_999
    await poll()
    expect(asked).toHaveLength(1)
    clock.now += 1
    await poll()
    await poll()
    expect(asked.map(({ askId }) => askId)).toEqual(['a', 'a'])
    gate.answer('a', allow)
    clock.now += 60_000
    expect(await poll()).toEqual(allow)
    expect(asked).toHaveLength(2)
  })

  it('denies a question that comes under an id with another input', async () => {
    const { gate } = openGate()
    void gate.ask(question('a'), 10)
    gate.answer('a', allow)
    expect(await gate.ask(question('a', { command: 'rm' }), 10)).toMatchObject({ decision: 'deny' })
  })

  it('denies everything without a turn, and asks nobody', async () => {
    const { gate, asked } = openGate()
    gate.close('The turn has ended')
    expect(await gate.ask(question('a'), 10)).toEqual({
      decision: 'deny',
      reason: 'The turn has ended',
    })
    expect(asked).toEqual([])
  })

  it('denies open questions when it closes; a late allow changes nothing', async () => {
    const { gate } = openGate()
    const waiting = gate.ask(question('a'), 1000)
    gate.close('The turn is being aborted')
    expect(await waiting).toMatchObject({ decision: 'deny' })
    gate.answer('a', allow)
    expect(await gate.ask(question('a'), 10)).toMatchObject({ decision: 'deny' })
    expect(gate.confirm(question('a'))).toMatchObject({ decision: 'deny' })
  })

  it('withdraws an allow that was given before it closed', async () => {
    const { gate } = openGate()
    void gate.ask(question('a'), 10)
    gate.answer('a', allow)
    expect(gate.confirm(question('a'))).toEqual(allow)
    const rewritten = { ...question('a'), input: { command: 'something else' } }
    expect(gate.confirm(rewritten)).toMatchObject({ decision: 'deny' })
    gate.close('The turn is being aborted')
    expect(gate.confirm(question('a'))).toMatchObject({ decision: 'deny' })
    gate.open('trn_1')
    expect(gate.confirm(question('a'))).toMatchObject({ decision: 'deny' })
  })

  it('denies after 30 s without a link, counted from the loss or the question, whichever is later', async () => {
    const { gate, clock } = openGate()
    gate.linkUp()
    const waiting = gate.ask(question('a'), 60_000)
    clock.now += 600_000
    gate.tick()
    expect(gate.unanswered()).toHaveLength(1)
    gate.linkDown()
    clock.now += 29_000
    gate.tick()
    expect(gate.unanswered()).toHaveLength(1)
    clock.now += 1000
    gate.tick()
    expect(await waiting).toEqual({
      decision: 'deny',
      reason: 'The control plane cannot be reached',
    })
  })

  it('keeps questions open over a short loss of the link', () => {
    const { gate, clock } = openGate()
    void gate.ask(question('a'), 1)
    gate.linkDown()
    clock.now += 20_000
    gate.linkUp()
    gate.linkDown()
    clock.now += 20_000
    gate.tick()
    expect(gate.unanswered()).toHaveLength(1)
  })

  it('covers and knows only the very call that was asked about', async () => {
    const { gate } = openGate()
    void gate.ask(question('a'), 1000)
    gate.answer('a', allow)
    for (const other of [{ sessionID: 'ses_b' }, { callId: 'call_2' }, { tool: 'read' }]) {
      const seen = { ...part('p1'), ...other }
      expect([other, gate.covers(seen), gate.wasAsked(seen)]).toEqual([other, false, false])
    }
    expect([gate.covers(part('p1')), gate.wasAsked(part('p2'))]).toEqual([true, true])
  })

  it('covers one part per allow, with exactly the input that was asked', async () => {
    const { gate } = openGate()
    void gate.ask(question('a', { a: 1, b: 2 }), 1)
    expect(gate.covers(part('p1', { a: 1, b: 2 }))).toBe(false)
    gate.answer('a', allow)
    expect(gate.covers(part('p1', { b: 2, a: 1 }))).toBe(true)
    expect(gate.covers(part('p1', { b: 2, a: 1 }))).toBe(true)
    expect(gate.covers(part('p2', { b: 2, a: 1 }))).toBe(false)
    expect(gate.covers(part('p3', { a: 1, b: 3 }))).toBe(false)
  })

  it('does not cover what was denied', async () => {
    const { gate } = openGate()
    void gate.ask(question('a'), 1)
    gate.answer('a', { decision: 'deny', reason: '' })
    expect(gate.covers(part('p1'))).toBe(false)
    expect(gate.wasAsked(part('p1'))).toBe(true)
  })
})

describe('the hash of an input', () => {
  it('does not depend on the order of keys', () => {
    expect(hashInput({ a: { x: 1, y: [1, 2] }, b: null })).toBe(
      hashInput({ b: null, a: { y: [1, 2], x: 1 } }),
    )
    expect(hashInput({ a: [1, 2] })).not.toBe(hashInput({ a: [2, 1] }))
    // The control plane compares it with its own, over what the link has carried.
    for (const input of [
      null,
      undefined,
      'ü\ud800',
      Infinity,
      { 2: 'b', 1: 'a', x: [-0, { b: 1, a: '\0' }] },
    ]) {
      const carried = JSON.parse(JSON.stringify({ input })) as { input?: unknown }
      expect(hashInput(input)).toBe(hashText(canonicalJson(carried.input ?? null)))
    }
  })
})
