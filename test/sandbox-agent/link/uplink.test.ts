import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { Results } from '../../../sandbox-agent/memory/memory.ts'
import { Spool } from '../../../sandbox-agent/memory/spool.ts'
import { Token } from '../../../sandbox-agent/link/token.ts'
import { Uplink, type UplinkOptions } from '../../../sandbox-agent/link/uplink.ts'
import { linkClose, UpMessage } from '../../../src/contract/link.ts'
import { serveSockets } from './socket-server.ts'
import { temporaryFolder } from '../support.ts'

/** A control plane that stores events in order, and an agent's side that talks to it. */
async function setUp(change: Partial<UplinkOptions> = {}) {
  const folder = temporaryFolder()
  const stored: number[] = []
  const seen: UpMessage[] = []
  const plane = { acknowledge: true, protocol: 1 }
  const server = await serveSockets((text, peer) => {
    if (text === 'ping') return
    const message = UpMessage.parse(JSON.parse(text))
    seen.push(message)
    if (message.t === 'hello')
      peer.send({ t: 'welcome', protocol: plane.protocol, ackedSeq: stored.at(-1) ?? 0 })
    if (message.t !== 'events') return
    for (const { seq } of message.items) if (seq > (stored.at(-1) ?? 0)) stored.push(seq)
    if (plane.acknowledge) peer.send({ t: 'ack', seq: stored.at(-1) ?? 0 })
  })
  const fenced: string[] = []
  const commands: string[] = []
  const spool = new Spool(join(folder, 'events.jsonl'))
  const results = new Results(join(folder, 'results.jsonl'))
  const token = new Token('the-token')
  const gate: Gate = new Gate((ask) => uplink.sendAsk(ask))
  const uplink = new Uplink({
    url: server.url,
    boot: 'boot',
    token,
    spool,
    results,
    gate,
    factsOf: () => ({ realPaths: [], shortened: false }),
    currentTurn: () => null,
    onCommand: async ({ id }) => void commands.push(id),
    onFenced: (reason) => fenced.push(reason),
    isFenced: async () => false,
    ...change,
  })
  onTestFinished(() => uplink.stop(0))
  const last = () => server.peers.at(-1)
  const count = (kind: UpMessage['t']) => seen.filter((message) => message.t === kind).length
  return {
    ...server,
    uplink,
    spool,
    results,
    token,
    gate,
    factsOf: () => ({ realPaths: [], shortened: false }),
    stored,
    seen,
    plane,
    fenced,
    commands,
    last,
    count,
  }
}

describe('the uplink', () => {
  it('says hello with its token and delivers what was told before it was connected', async () => {
    const { uplink, stored, seen, last } = await setUp()
    for (let n = 1; n <= 500; n += 1) uplink.emit('agent.notice', { message: `${n}` })
    uplink.start()
    await expect.poll(() => stored.length).toBe(500)
    expect(seen[0]).toMatchObject({ t: 'hello', protocols: [2, 1], boot: 'boot', ready: false })
    expect(last()?.authorization).toBe('Bearer the-token')
  })

  it('delivers every event once and in order, however often the link is cut', async () => {
    const { uplink, stored, last, state } = await setUp()
    uplink.start()
    let told = 0
    while (state.opened < 12) {
      for (let n = 0; n < 20; n += 1) uplink.emit('agent.notice', { message: `${(told += 1)}` })
      const before = state.opened
      last()?.cut()
      await expect.poll(() => state.opened, { interval: 10 }).toBeGreaterThan(before)
      await expect.poll(() => stored.length, { interval: 10 }).toBeGreaterThan(told - 60)
    }
    await expect.poll(() => stored.length).toBe(told)
    expect(stored).toEqual(Array.from({ length: told }, (_, index) => index + 1))
  })

  it('keeps on disk what is not acknowledged and sends it again', async () => {
    const { uplink, spool, plane, stored, count, last } = await setUp()
    plane.acknowledge = false
    uplink.start()
    uplink.emit('agent.notice', { message: 'x' })
    await expect.poll(() => stored).toEqual([1])
    expect(spool.after(0, 10)).toHaveLength(1)
    last()?.cut()
    await expect.poll(() => count('hello')).toBe(2)
    await expect.poll(() => spool.after(0, 10)).toHaveLength(0) // the welcome says that it is stored
  })

  it('owes nothing that was acknowledged once, whatever is acknowledged late', async () => {
    const { uplink, spool, plane, stored, last } = await setUp()
    plane.acknowledge = false
    uplink.start()
    for (const message of ['x', 'y']) uplink.emit('agent.notice', { message })
    await expect.poll(() => stored).toEqual([1, 2])
    for (const seq of [2, 1]) last()?.send({ t: 'ack', seq })
    await expect.poll(() => spool.after(0, 10)).toHaveLength(0)
    const begunAt = Date.now()
    await uplink.stop(60_000)
    expect(Date.now() - begunAt).toBeLessThan(30_000)
  }, 90_000)

  it('sends results and open questions again after each reconnect, until they are answered', async () => {
    const { uplink, results, gate, last, count, seen } = await setUp()
    uplink.start()
    await expect.poll(() => count('hello')).toBe(1)
    results.add('one', { ok: true, data: {} })
    uplink.sendResult('one', { ok: true, data: {} })
    gate.open('trn_1')
    const askId = 'ask_00000000000000000000'
    const answer = gate.ask(
      { askId, tool: 'bash', callId: 'c', sessionID: 's', input: {} },
      240_000,
    )
    await expect.poll(() => count('ask')).toBe(1)
    expect(seen.find(({ t }) => t === 'ask')).toMatchObject({ askId, turnId: 'trn_1' })
    last()?.cut()
    await expect.poll(() => [count('result'), count('ask')]).toEqual([2, 2])
    last()?.send({ t: 'resultAck', commandId: 'one' })
    last()?.send({ t: 'answer', askId, decision: 'allow', reason: 'yes' })
    expect(await answer).toEqual({ decision: 'allow', reason: 'yes' })
    last()?.cut()
    await expect.poll(() => count('hello')).toBe(3)
    expect([count('result'), count('ask')]).toEqual([2, 2])
  })

  it('[TURN15] says which turn it has at each welcome and when asked to, to whoever understands it', async () => {
    const { uplink, plane, last, seen, count } = await setUp({ currentTurn: () => 'trn_1' })
    uplink.start()
    await expect.poll(() => count('hello')).toBe(1)
    await expect.poll(() => uplink.beats).toBe(false)
    uplink.alive()
    plane.protocol = 2
    last()?.cut()
    await expect.poll(() => count('alive')).toBe(1)
    expect([uplink.beats, count('hello')]).toEqual([true, 2])
    uplink.alive()
    await expect.poll(() => count('alive')).toBe(2)
    expect(seen.at(-1)).toEqual({ t: 'alive', turnId: 'trn_1' })
  })

  it('says at the next hello that it is ready, or that it failed', async () => {
    const { uplink, seen, count, last } = await setUp()
    uplink.start()
    await expect.poll(() => count('hello')).toBe(1)
    uplink.ready(5, [], { level: 'none', how: 'not tried', why: null })
    last()?.cut()
    await expect.poll(() => count('hello')).toBe(2)
    expect(seen.findLast((message) => message.t === 'hello')).toMatchObject({ ready: true })
    uplink.failed('broken')
    last()?.cut()
    await expect.poll(() => count('hello')).toBe(3)
    await expect.poll(() => seen.at(-1)).toEqual({ t: 'failed', reason: 'broken' })
  })

  it('passes commands on, and uses a renewed token for the next connection', async () => {
    const { uplink, commands, last, count } = await setUp()
    uplink.start()
    await expect.poll(() => count('hello')).toBe(1)
    last()?.send({ t: 'command', id: 'cmd', kind: 'diff', body: {} })
    await expect.poll(() => commands).toEqual(['cmd'])
    last()?.send({ t: 'token', token: 'another-token', expiresAt: 1 })
    last()?.close(linkClose.renewed)
    await expect.poll(() => count('hello')).toBe(2)
    expect(last()?.authorization).toBe('Bearer another-token')
  })

  it.each([linkClose.fenced, linkClose.refused])(
    'stops for good when closed with %i',
    async (code) => {
      const { uplink, fenced, last, count, state } = await setUp()
      uplink.start()
      await expect.poll(() => count('hello')).toBe(1)
      last()?.close(code)
      await expect.poll(() => fenced).toHaveLength(1)
      await new Promise((resolve) => setTimeout(resolve, 400))
      expect(state.opened).toBe(1)
    },
  )

  it('asks over HTTP why its upgrades are refused, and stops if it is fenced', async () => {
    const { uplink, fenced, state } = await setUp({ isFenced: async () => true })
    state.refuse = true
    uplink.start()
    await expect.poll(() => fenced, { timeout: 120_000 }).toHaveLength(1)
    expect(state.opened).toBe(3)
  })

  it('survives messages that it does not understand', async () => {
    const { uplink, stored, last, count } = await setUp()
    uplink.start()
    await expect.poll(() => count('hello')).toBe(1)
    last()?.send({ t: 'news from a later release' })
    uplink.emit('agent.notice', { message: 'x' })
    await expect.poll(() => stored).toEqual([1])
  })
})
