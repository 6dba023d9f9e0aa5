import { describe, expect, it } from 'vitest'
import { hasty, prompt, turnWorld } from './turn-kit.ts'

const limit = { timeout: 20_000 }
const question = (n: number) => ({
  ...{ askId: `ask_${String(n).padStart(20, '0')}`, tool: 'bash', callId: 'c', sessionID: 'ses_1' },
  input: {},
})
type World = ReturnType<typeof turnWorld>
const calm = { ...hasty, abortMs: 20_000, quietMs: 60_000, lookEveryMs: 60_000 }
const event = (world: World, type: string, properties: Record<string, unknown>) =>
  world.turns.hear({ type, properties })

async function begun(
  options: Parameters<typeof turnWorld>[0] = { patience: calm },
): Promise<World> {
  const world = turnWorld(options)
  expect(await world.turns.prompt(prompt)).toEqual({ sent: true })
  return world
}

describe('the end of a turn', () => {
  it.each(['session.idle', 'session.error'])(
    '[TURN6] is looked for at once when OpenCode says %s of this session, not of another',
    async (type) => {
      const world = await begun()
      world.opencode.answer('I am done')
      const looks = () => world.opencode.requests.filter((line) => line.includes('/status')).length
      const before = looks()
      event(world, type, { sessionID: 'ses_other', error: { data: { message: 'x' } } })
      event(world, 'session.updated', { sessionID: 'ses_1' })
      await new Promise(setImmediate)
      expect(looks()).toBe(before)
      event(world, type, { sessionID: 'ses_1', error: { data: { message: 'It broke' } } })
      await expect.poll(() => world.ended().length, limit).toBe(1)
      expect(world.ended()[0]).toMatchObject({ turnId: 'trn_1' })
    },
  )

  it('[GATE4] closes the gate: what is asked afterwards is denied with the reason', async () => {
    const world = await begun()
    const open = world.gate.ask(question(1), 60_000)
    world.opencode.answer()
    event(world, 'session.idle', { sessionID: 'ses_1' })
    await expect.poll(() => world.ended().length, limit).toBe(1)
    const denied = { decision: 'deny', reason: 'The turn has ended' }
    expect([await open, await world.gate.ask(question(2), 60_000)]).toEqual([denied, denied])
  })

  it('[TURN6] an orderly stop denies first, and the turn is told as stopped', async () => {
    const world = await begun()
    const open = world.gate.ask(question(1), 60_000)
    await world.turns.abortAndWait('the sandbox is stopped', 20_000)
    expect(await open).toEqual({ decision: 'deny', reason: 'The sandbox is being stopped' })
    expect(world.ended()).toHaveLength(1)
  })
})

describe('why a turn has ended', () => {
  it('[TURN6] OpenCode has said an error', async () => {
    const broken = await begun()
    broken.opencode.busy = false
    const error = { name: 'UnknownError', data: { message: 'It broke' } }
    event(broken, 'session.error', { sessionID: 'ses_1', error })
    await expect.poll(() => broken.ended().length, limit).toBe(1)
    expect(broken.ended()[0]).toMatchObject({ reason: expect.stringContaining('It broke') })
  })

  it('[TURN9] the agent itself was restarted', async () => {
    const world = turnWorld({ patience: calm })
    const turn = { turnId: 'trn_0', messageIds: ['msg_0'], startedAt: 1 }
    world.memory.save({ turn, opencodeSessionId: 'ses_1' })
    await world.turns.endForgotten({ started: [], ended: [], over: false })
    expect(world.ended()).toMatchObject([
      {
        ...{ turnId: 'trn_0', state: 'interrupted' },
        reason: 'The agent was restarted during the turn',
      },
    ])
  })

  it('[TURN9] an abort that comes after the death of OpenCode changes nothing', async () => {
    const world = await begun()
    world.die()
    await world.turns.abort('trn_1', 'too late')
    await expect.poll(() => world.ended().length, limit).toBe(1)
    expect(world.ended()[0]).toMatchObject({ state: 'interrupted' })
  })
})

describe('the death of OpenCode', () => {
  it('[TURN9] denies what waits, and the next prompt tells what is lost', async () => {
    const world = await begun()
    const open = world.gate.ask(question(1), 60_000)
    world.die()
    expect(await open).toEqual({ decision: 'deny', reason: 'OpenCode has died' })
    await expect.poll(() => world.ended().length, limit).toBe(1)
    expect(world.ended()[0]).toMatchObject({ reason: 'OpenCode died during the turn' })
    expect(world.memory.value.loss).not.toBeNull()
  })

  it('[TURN9] before it ever had a session loses nothing; between turns it loses what ran', async () => {
    const world = turnWorld({ patience: calm })
    world.turns.opencodeDied()
    expect(world.memory.value.loss).toBeNull()
    await world.turns.prompt(prompt)
    world.opencode.answer()
    event(world, 'session.idle', { sessionID: 'ses_1' })
    await expect.poll(() => world.ended().length, limit).toBe(1)
    world.forget()
    await new Promise(setImmediate)
    world.die()
    expect(world.memory.value.loss).not.toBeNull()
  })
})

it('[TURN12] events are a sign of life, though OpenCode answers no look', async () => {
  const world = await begun({ patience: { ...hasty, quietMs: 60_000 } })
  world.opencode.isHung = true
  const looks = () => world.opencode.requests.filter((line) => line.endsWith('/status')).length
  const before = looks()
  const lives = () => {
    event(world, 'session.updated', { info: { id: 'ses_1' } })
    return looks() - before
  }
  await expect.poll(lives, { ...limit, interval: 5 }).toBeGreaterThan(2 * hasty.missedProbes)
  expect(world.kills).toEqual([])
  world.opencode.isHung = false
  await world.turns.abortAndWait('the test is over', 20_000)
})

describe('a text that is merged into a turn', () => {
  it('[TURN3] is remembered with its turn before it is sent', async () => {
    const world = await begun()
    const held = world.opencode.hold('/prompt_async')
    const steer = world.turns.prompt({ ...prompt, messageId: 'msg_9', steer: true })
    await held.reached
    expect(world.memory.value.turn?.messageIds).toEqual(['msg_1', 'msg_9'])
    held.release()
    expect(await steer).toEqual({ sent: true })
    await world.turns.abortAndWait('the test is over', 20_000)
  })
})

it('[TURN3] a turn that is being aborted takes no more text', async () => {
  const world = await begun()
  const held = world.opencode.hold('/abort')
  void world.turns.abort('trn_1', 'enough')
  await held.reached
  const steer = world.turns.prompt({ ...prompt, messageId: 'msg_9', steer: true })
  await expect(steer).rejects.toThrow('it is not running')
  held.release()
  await expect.poll(() => world.ended().length, limit).toBe(1)
})

it('[GATE6] a tool that ran without the gate is told, and the turn is aborted', async () => {
  const world = await begun()
  const info = { id: 'msg_1_a', sessionID: 'ses_1', role: 'assistant', parentID: 'msg_1' }
  event(world, 'message.updated', { info })
  const state = { status: 'completed', input: { command: 'ls' } }
  const names = { id: 'p', messageID: 'msg_1_a', sessionID: 'ses_1' }
  event(world, 'message.part.updated', {
    part: { ...names, type: 'tool', tool: 'bash', callID: 'c', state },
  })
  await expect.poll(() => world.ended().length, limit).toBe(1)
  expect(world.emitted.find(({ kind }) => kind === 'gate.bypassed')?.data).toMatchObject({
    ...{ turnId: 'trn_1', sessionId: 'ses_1', tool: 'bash', callId: 'c' },
  })
  expect(world.ended()[0]).toMatchObject({
    ...{ state: 'aborted', reason: `"bash" ran without the gate's consent` },
  })
})
