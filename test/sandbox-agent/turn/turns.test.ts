import { describe, expect, it } from 'vitest'
import { Refused } from '../../../sandbox-agent/opencode/opencode.ts'
import { hasty, prompt, second, turnWorld } from './turn-kit.ts'

const question = (n: number) => ({
  askId: `ask_${String(n).padStart(20, '0')}`,
  tool: 'bash',
  callId: 'c',
  sessionID: 'ses_1',
  input: {},
})
const sendings = (requests: string[]) => requests.filter((line) => line.includes('prompt_async'))
const limit = { timeout: 20_000 }

describe('one turn at a time', () => {
  /** Every place at which the first prompt waits for something, and how to hold it there. */
  const waits: [name: string, hold: (world: ReturnType<typeof turnWorld>) => Held][] = [
    ['the manifest is verified', (world) => world.holdBeforePrompt()],
    ['OpenCode is asked whether it answers', ({ opencode }) => opencode.hold('/session/status')],
    ['a session is opened', ({ opencode }) => opencode.hold('/session')],
    ['its message is looked up', ({ opencode }) => opencode.hold('/message/msg_1')],
    ['it is sent', ({ opencode }) => opencode.hold('/prompt_async')],
  ]
  interface Held {
    reached: Promise<void>
    release: () => void
  }

  it.each(waits)(
    '[TURN11] a second prompt while %s: the first ends, then the second is worked on whole',
    async (_, hold) => {
      const world = turnWorld({ patience: { ...hasty, abortMs: 20_000, quietMs: 60_000 } })
      const held = hold(world)
      const first = world.turns.prompt(prompt)
      await held.reached
      const next = world.turns.prompt(second)
      await new Promise(setImmediate)
      expect(sendings(world.opencode.requests).length).toBeLessThan(2)
      held.release()
      await first
      expect(await next).toEqual({ sent: true })
      expect(world.ended()).toMatchObject([{ turnId: 'trn_1', state: 'aborted' }])
      expect(world.opencode.bodies.at(-1)).toMatchObject({ messageID: 'msg_2' })
      // Its gate is open, its words are told, and its end is its own.
      void world.gate.ask(question(1), 60_000)
      expect(world.asked).toMatchObject([{ turnId: 'trn_2', answer: null }])
      world.opencode.answer('I am the second')
      await expect.poll(() => world.ended().length, limit).toBe(2)
      expect(world.ended()[1]).toMatchObject({ turnId: 'trn_2', state: 'completed' })
      expect(world.kills).toEqual([])
    },
  )

  it('[TURN5] delivered again while it waits, a prompt is the same one', async () => {
    const world = turnWorld()
    const held = world.opencode.hold('/message/msg_1')
    const first = world.turns.prompt(prompt)
    await held.reached
    const again = world.turns.prompt(prompt)
    held.release()
    expect([await first, await again]).toEqual([{ sent: true }, { sent: true }])
    expect(sendings(world.opencode.requests)).toHaveLength(1)
    expect(world.ended()).toEqual([])
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('[TURN11] of three that come at once each waits for the one before, and the last is worked on', async () => {
    const world = turnWorld({ arrived: false })
    const third = { ...prompt, turnId: 'trn_3', messageId: 'msg_3' }
    const sent = [prompt, second, third].map((body) => world.turns.prompt(body))
    world.arrive()
    expect(await Promise.all(sent)).toEqual([{ sent: false }, { sent: false }, { sent: true }])
    expect(world.ended().map(({ turnId }) => turnId)).toEqual(['trn_1', 'trn_2'])
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('[TURN11] a prompt that cannot be sent makes room for the next', async () => {
    const world = turnWorld()
    const held = world.opencode.hold('/message/msg_1')
    const first = world.turns.prompt(prompt)
    await held.reached
    world.opencode.isDead = true
    held.release()
    await expect(first).rejects.toThrow('OpenCode has ended')
    world.die()
    expect(await world.turns.prompt(second)).toEqual({ sent: true })
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('[TURN3] what is to be merged into a turn that ends meanwhile is refused, not lost in it', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    const held = world.opencode.hold('/message/msg_9')
    const steered = world.turns.prompt({ ...prompt, messageId: 'msg_9', steer: true })
    await held.reached
    world.opencode.answer()
    await expect.poll(() => world.ended().length, limit).toBe(1)
    held.release()
    await expect(steered).rejects.toThrow('it is not running')
    expect(sendings(world.opencode.requests)).toHaveLength(1)
  })
})

it('[TURN3] what is merged while the turn is found to be over is still answered in it', async () => {
  const world = turnWorld({ patience: { ...hasty, quietMs: 60_000 } })
  await world.turns.prompt(prompt)
  const held = world.opencode.hold('/message')
  world.opencode.answer('First')
  await held.reached
  await world.turns.prompt({ ...prompt, messageId: 'msg_9', steer: true })
  held.release()
  const looks = world.opencode.requests.length
  await expect.poll(() => world.opencode.requests.length - looks, limit).toBeGreaterThan(3)
  expect(world.ended()).toEqual([])
  world.opencode.answer('Second')
  await expect.poll(() => world.ended(), limit).toMatchObject([{ text: 'Second' }])
})

describe('[TURN13] quiet, and yet alive', () => {
  const part = { id: 'prt_1', sessionID: 'ses_1', messageID: 'msg_a', type: 'tool', callID: 'c' }
  const hear = (world: ReturnType<typeof turnWorld>, status: string) => {
    const info = { id: 'msg_a', sessionID: 'ses_1', role: 'assistant' }
    world.turns.hear({ type: 'message.updated', properties: { sessionID: 'ses_1', info } })
    const tool = {
      ...part,
      tool: 'bash',
      state: { status, input: {}, error: 'Tool execution aborted', time: {} },
    }
    world.turns.hear({ type: 'message.part.updated', properties: { part: tool } })
  }
  const signs: [string, (world: ReturnType<typeof turnWorld>) => () => void][] = [
    [
      "a model's answer grows",
      (world) => {
        world.streams = true
        return () => (world.streams = false)
      },
    ],
    [
      'a question waits',
      (world) => {
        void world.gate.ask(question(1), 60_000)
        return () => world.gate.answer(question(1).askId, { decision: 'deny', reason: '' })
      },
    ],
    [
      'a tool runs',
      (world) => {
        hear(world, 'running')
        return () => hear(world, 'error')
      },
    ],
  ]
  it.each(signs)('while %s', async (_, begin) => {
    const world = turnWorld({ patience: { ...hasty, quietMs: 200, quietToolMs: 3_600_000 } })
    await world.turns.prompt(prompt)
    const stop = begin(world)
    const looks = () => world.opencode.requests.filter((line) => line.endsWith('/status')).length
    // At 20 ms each, many times as long as it may be quiet.
    await expect.poll(looks, limit).toBeGreaterThan(60)
    expect(world.ended()).toEqual([])
    stop()
    await expect
      .poll(() => world.ended(), limit)
      .toMatchObject([{ reason: expect.stringContaining('Nothing has moved for') }])
  })
})

describe('an OpenCode that hangs', () => {
  it('[TURN12] in the middle of a turn: it is killed, the turn interrupted with the reason, and the model told', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    world.opencode.isHung = true
    await expect
      .poll(() => world.ended(), limit)
      .toMatchObject([
        {
          turnId: 'trn_1',
          state: 'interrupted',
          reason: expect.stringContaining('OpenCode has not answered for'),
        },
      ])
    expect(world.kills).toHaveLength(1)
    await world.turns.prompt(second)
    expect(JSON.stringify(world.opencode.bodies)).toMatch(
      /OpenCode was ended and restarted.*has not answered for/,
    )
    await world.turns.abortAndWait('the test is over', 10_000)
    expect(world.memory.value.loss).toBeNull()
  })

  it('[TURN12] while no turn runs: the next prompt finds out, waits for the new one, and is sent', async () => {
    const world = turnWorld()
    world.opencode.isHung = true
    expect(await world.turns.prompt(prompt)).toEqual({ sent: true })
    expect(world.kills).toHaveLength(1)
    await world.turns.abortAndWait('the test is over', 10_000)
  })

  it('[TURN12] at the end of a turn: its last words are fetched from the next one', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    const held = world.opencode.hold('/children')
    world.opencode.answer('My last words')
    await held.reached
    world.opencode.isDead = true
    held.release()
    await expect.poll(() => world.ended(), limit).toMatchObject([{ text: 'My last words' }])
    expect(world.kills).toHaveLength(1)
  })

  it('[TURN13] it answers, but nothing moves any more', async () => {
    const world = turnWorld()
    await world.turns.prompt(prompt)
    await expect
      .poll(() => world.ended(), limit)
      .toMatchObject([
        { state: 'interrupted', reason: expect.stringContaining('Nothing has moved for') },
      ])
  })

  it('[TURN8] aborted: it has its few seconds, then it is killed, and the next prompt is worked on', async () => {
    const world = turnWorld({ patience: { ...hasty, probeMs: 60_000, quietMs: 60_000 } })
    await world.turns.prompt(prompt)
    world.opencode.isHung = true
    await world.turns.abort('trn_1', 'enough of this')
    expect(await world.turns.prompt(second)).toEqual({ sent: true })
    expect(world.ended()).toMatchObject([
      { turnId: 'trn_1', state: 'aborted', reason: 'enough of this' },
    ])
    expect(world.kills).toHaveLength(1)
    world.opencode.answer()
    await expect.poll(() => world.ended()[1], limit).toMatchObject({ state: 'completed' })
  })

  it('[TURN8] it answers and goes on working in spite of an abort: killed as well', async () => {
    const world = turnWorld({ patience: { ...hasty, quietMs: 60_000 } })
    await world.turns.prompt(prompt)
    world.opencode.ignoresAborts = true
    await world.turns.abort('trn_1')
    await expect.poll(() => world.ended(), limit).toMatchObject([{ state: 'aborted' }])
    expect(world.kills).toHaveLength(1)
  })
})

it('[TURN9] OpenCode that dies while no turn runs is told to the model, too', async () => {
  const world = turnWorld()
  await world.turns.prompt(prompt)
  world.opencode.answer()
  await expect.poll(() => world.ended().length, limit).toBe(1)
  world.die()
  await world.turns.prompt(second)
  expect(JSON.stringify(world.opencode.bodies)).toContain('after the last turn and was restarted')
  await world.turns.abortAndWait('the test is over', 10_000)
})

it('[TURN8] a turn that is aborted while its prompt waits for OpenCode ends at once and is never sent', async () => {
  const world = turnWorld({ arrived: false })
  const prompted = world.turns.prompt(prompt)
  await world.turns.abort('trn_1', 'not this one')
  expect(world.ended()).toMatchObject([{ state: 'aborted', reason: 'not this one' }])
  world.arrive()
  expect(await prompted).toEqual({ sent: false })
  expect(sendings(world.opencode.requests)).toEqual([])
})

it('[TURN8] an abort that comes before its prompt counts, with its reason', async () => {
  const world = turnWorld()
  await world.turns.abort('trn_1', 'too late')
  expect(await world.turns.prompt(prompt)).toEqual({ sent: false })
  expect(world.ended()).toMatchObject([{ turnId: 'trn_1', state: 'aborted', reason: 'too late' }])
  expect(world.opencode.requests).toEqual([])
})

it('[LIFE7] what the model must know first goes before what the user said, and is marked as not theirs', async () => {
  const { turns, opencode } = turnWorld()
  await turns.prompt({ ...prompt, notice: 'The sandbox is a new one' })
  expect(opencode.bodies).toEqual([
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
  const world = turnWorld()
  await world.turns.prompt(prompt)
  await world.turns.abortAndWait('received SIGTERM', 10_000)
  expect(world.ended()).toMatchObject([{ turnId: 'trn_1', state: 'interrupted' }])
})

it('[TURN8] aborted before its sandbox is stopped, it stays aborted', async () => {
  const world = turnWorld()
  await world.turns.prompt(prompt)
  await world.turns.abort('trn_1', 'enough')
  await world.turns.abortAndWait('received SIGTERM', 10_000)
  await expect
    .poll(() => world.ended(), limit)
    .toMatchObject([{ state: 'aborted', reason: 'enough' }])
})

it('[TURN6] a turn is remembered until its end is on the disk, and then not in the place of the next', async () => {
  const world = turnWorld()
  const { turns, memory } = world
  await turns.prompt(prompt)
  await turns.abortAndWait('received SIGTERM', 10_000)
  expect(world.ended()).toHaveLength(1)
  expect(memory.value.turn).toMatchObject({ turnId: 'trn_1' })
  await turns.prompt(second)
  world.forget()
  expect(memory.value.turn).toMatchObject({ turnId: 'trn_2' })
  await turns.abortAndWait('the test is over', 10_000)
  await expect.poll(() => world.ended().length, limit).toBe(2)
  world.forget()
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
  const { turns, memory, emitted, opencode } = turnWorld()
  opencode.messages = [...worked]
  memory.save({ turn: left, opencodeSessionId: 'ses_1' })
  await turns.endForgotten({ started: ['prt_1'], ended: [], over: false })
  expect(emitted.map(({ kind }) => kind)).toEqual(['tool.completed', 'turn.ended'])
  expect(emitted.at(-1)?.data).toMatchObject({ turnId: 'trn_1', state: 'interrupted' })
  expect(memory.value.loss).toContain('Work of that turn may be incomplete')
})

it('[TURN6] after a restart of the agent a turn whose end was told does not end again', async () => {
  const { turns, memory, emitted } = turnWorld()
  memory.save({ turn: left })
  await turns.endForgotten({ started: [], ended: [], over: true })
  expect(emitted).toEqual([])
  expect(memory.value).toMatchObject({ turn: null, loss: null })
})

describe('a prompt that OpenCode does not take', () => {
  const failing = (error: Error) => {
    const world = turnWorld()
    const { opencode } = world
    const answer = opencode.request
    const request: typeof answer = async (method, path, ...rest) => {
      if (path.endsWith('/prompt_async')) throw error
      return answer(method, path, ...rest)
    }
    Object.assign(opencode, { request })
    return world
  }

  it('[TURN16] without an answer OpenCode is restarted: it may have it all the same', async () => {
    const world = failing(new Error('No answer in time'))
    await world.turns.prompt(prompt)
    await expect.poll(() => world.ended()).toMatchObject([{ state: 'interrupted' }])
    expect(world.kills).toEqual(['killed'])
  })

  it('[TURN16] with a refusal the turn fails, and OpenCode goes on', limit, async () => {
    const world = failing(new Refused('OpenCode answered 400'))
    await world.turns.prompt(prompt)
    await expect
      .poll(() => world.ended(), { timeout: 15_000 })
      .toMatchObject([{ state: 'failed', reason: 'OpenCode answered 400' }])
    expect(world.kills).toEqual([])
  })

  it('[TURN16] a turn does not end while its prompt is on its way', limit, async () => {
    const world = turnWorld({ patience: { ...hasty, lookEveryMs: 200 } })
    const held = world.opencode.hold('/prompt_async')
    void world.turns.prompt(prompt)
    await held.reached
    // It is idle and has failed: after a while it is not looked at any more.
    world.turns.hear({ type: 'session.error', properties: { sessionID: 'ses_1', error: {} } })
    const looks = () => world.opencode.requests.filter((line) => line.includes('status')).length
    let before = -1
    const isDone = () => before === (before = looks())
    await expect.poll(isDone, { interval: 1000, timeout: 15_000 }).toBe(true)
    expect(world.ended()).toEqual([])
    held.release()
    world.opencode.answer()
    await expect.poll(() => world.ended().length).toBe(1)
  })
})
