import { describe, expect, test } from 'vitest'
import { ExecutionCreate } from '../../../../src/contract/execution.ts'
import type { Execution, ExecutionRecord } from '../../../../src/contract/execution.ts'
import { parseAbilityDefinition } from '../../../../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../../../../src/core/session/executions/rows.ts'
import { withCalledAbilities } from '../../../../src/core/session/abilities/called-abilities.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

// Steps of each type inside of one session: how long they wait, what stops them, and what is seen of them.

const copyOf = (yaml: string): AbilityCopy => {
  const parsed = parseAbilityDefinition(yaml, null)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  const { name } = parsed.ability
  return { name, version: 1, hash: name.padEnd(64, '0'), definition: parsed.ability, files: [] }
}

const execute = (
  world: RunWorld,
  ability: AbilityCopy,
  create: Record<string, unknown> = {},
  nested: AbilityCopy[] = [],
): Promise<Execution> =>
  world.actor.api.abilities.execute(
    testCaller,
    { create: ExecutionCreate.parse({ ability: ability.name, ...create }), ability, nested },
    null,
  )

async function settled(world: RunWorld, id: string): Promise<ExecutionRecord> {
  await world.settle()
  return world.actor.api.abilities.get(testCaller, id, 0)
}

const prompts = (world: RunWorld) => world.commands().filter(({ kind }) => kind === 'prompt')

/** What the sandbox was told to run last. */
const running = (world: RunWorld) => {
  const command = world.executes().at(-1)
  const { operation } = (command?.body ?? {}) as { operation?: { command: string } }
  return { id: command?.id ?? '', command: operation?.command }
}

describe('an agent step', () => {
  const agent = (more = '') =>
    copyOf(
      `{ name: works, description: d, steps: [{ id: a, agent: build, prompt: Work${more} }, { id: b, run: make }] }`,
    )

  test('[ABL19] has no turn in a session without a sandbox', async () => {
    const world = await new RunWorld().begin({ sandbox: 'none' })
    const { id } = await execute(world, agent())
    const record = await settled(world, id)
    expect(record).toMatchObject({
      ...{ status: 'failed', error: "Step 'a' failed: This session has no sandbox" },
      steps: [{ tries: 1, subject: null }, { status: 'pending' }],
    })
  })

  test('[ABL19] counts its time from the begin of its turn, and is stopped when it is over', async () => {
    const world = await new RunWorld().begin()
    const { id } = await execute(world, agent(', timeout: 2m'))
    await world.settle()
    const [prompt] = prompts(world)
    await world.takePrompt({ id: prompt?.id ?? '' })
    const asked = await world.ask('bash', { command: 'sudo ls' })
    await world.pass(119_000)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(2000)
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'failed', error: "Step 'a' failed: Step 'a' timed out after 120000ms" },
    })
    // Nothing of it goes on, and what it has asked is answered.
    expect(world.commands().filter(({ kind }) => kind === 'abort')).toHaveLength(1)
    expect(world.answerTo(asked)).toBe('deny')
  })

  test('[ABL19] waits an hour behind the turns of others, and no longer; what is in the queue then is dropped', async () => {
    const world = await new RunWorld().begin()
    const own = await world.prompt()
    await world.takePrompt(own)
    const { id } = await execute(world, agent())
    await world.settle()
    for (let minute = 0; minute < 59; minute += 1) {
      await world.emit(['step.finished', step(own.id)])
      await world.pass(60_000)
    }
    expect((await settled(world, id)).steps[0]).toMatchObject({ status: 'running' })
    for (let minute = 0; minute < 2; minute += 1) {
      await world.emit(['step.finished', step(own.id)])
      await world.pass(60_000)
    }
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'failed', error: "Step 'a' failed: Step 'a' timed out after 3600000ms" },
    })
    await world.endTurn(own)
    await world.settle()
    expect(prompts(world)).toHaveLength(1)
  })

  test('[ABL20] that ends without a word is told three times to go on, by its own agent; then a person is asked', async () => {
    const world = await new RunWorld().begin()
    const { id } = await execute(world, agent())
    const said: unknown[] = []
    for (let turn = 0; turn < 4; turn += 1) {
      await world.settle()
      const prompt = prompts(world).at(-1)
      said.push([prompt?.body['agent'], String(prompt?.body['text']).slice(0, 20)])
      await world.takePrompt({ id: prompt?.id ?? '' })
      await world.endTurn({ id: prompt?.id ?? '' })
    }
    expect(said).toEqual([
      ['build', '## Your task\n\nWork\n'],
      ...Array.from({ length: 3 }, () => ['build', "Step 'a' is not fini"]),
    ])
    const asks = await settled(world, id)
    expect(asks.waitsFor).toEqual([
      {
        ...{ executionId: id, stepId: 'a', approvalId: null },
        why: 'The agent was told 3 times to go on, and has not said what came of it',
      },
    ])
    // A person's word begins it anew, with as many words as before.
    await world.actor.api.abilities.resume(testCaller, id, {
      ...{ stepId: 'a', answer: 'retry', reason: '' },
    })
    const again = await settled(world, id)
    expect(again.steps[0]).toMatchObject({ status: 'running', tries: 2, error: null })
    expect(prompts(world).at(-1)?.body['text']).toBe('## Your task\n\nWork\n')
  })
})

const step = (turnId: string) => ({
  ...{ sessionId: 's', messageId: 'm', partId: 'p', reason: 'stop', cost: 0, turnId },
  tokens: { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 },
})

describe('a script step', () => {
  test.each(['a\u0000b', 'a\ud800b'])(
    '[ABL16] whose variable could not arrive as it is fails (%j)',
    async (text) => {
      const script = copyOf(
        "{ name: varied, description: d, inputs: { text: {}, token: { secret: true } }, steps: [{ id: a, run: make, env: { TEXT: 'is {{inputs.text}}' } }] }",
      )
      const world = await new RunWorld().begin()
      const open = await execute(world, script, { inputs: { text } })
      expect((await settled(world, open.id)).error).toBe(
        "Step 'a' failed: TEXT has characters that no program can be given",
      )
      const secret = await execute(world, script, { inputs: { token: text } })
      expect((await settled(world, secret.id)).error).toBe(
        "Step 'a' failed: ABILITY_SECRET_1 has characters that no program can be given",
      )
      expect(world.executes()).toEqual([])
    },
  )
})

describe('a workflow step', () => {
  const inner = copyOf(
    `{ name: inner, description: d, inputs: { n: { type: number }, all: { type: array }, of: { type: object }, text: {} }, steps: [{ id: x, run: 'echo {{inputs.n}} {{inputs.all}} {{inputs.of}} {{inputs.text}}' }, { id: y, run: make, when: inputs.n == 2 }] }`,
  )
  const outer = copyOf(
    `{ name: outer, description: d, inputs: { n: { type: number }, none: {} }, steps: [{ id: w, workflow: inner, timeout: 2m, inputs: { n: '{{inputs.n}}', all: ['{{inputs.n}}', 'is {{inputs.n}}'], of: { k: '{{inputs.n}}' }, text: '{{inputs.none}}' } }, { id: z, run: 'echo {{steps.w.output}}' }] }`,
  )

  test('[ABL24] gives values as they are, and has what the last completed step of its ability has said', async () => {
    const world = await new RunWorld().begin()
    const { id } = await execute(world, outer, { inputs: { n: 1 } }, [inner])
    await world.settle()
    expect(running(world).command).toBe(`echo '1' '[1,"is 1"]' '{"k":1}' ''`)
    await world.result(running(world).id, { exitCode: 0, output: 'said' })
    await world.settle()
    expect(running(world).command).toBe("echo 'said'")
    await world.result(running(world).id, { exitCode: 0 })
    expect((await settled(world, id)).status).toBe('completed')
  })

  test('[ABL24] fails with what its ability does not take, and when its time is over', async () => {
    const world = await new RunWorld().begin()
    const first = await execute(world, outer, {}, [copyOf(requiring)])
    expect((await settled(world, first.id)).error).toBe(
      "Step 'w' failed: Input validation failed: inputs.all: There is no such input; inputs.of: There is no such input; inputs.text: There is no such input; inputs.n: Required: number",
    )
    const second = await execute(world, { ...outer, hash: '2'.repeat(64) }, {}, [
      { ...inner, hash: '3'.repeat(64) },
    ])
    await world.settle()
    await world.pass(121_000)
    expect((await settled(world, second.id)).error).toBe(
      "Step 'w' failed: Step 'w' timed out after 120000ms",
    )
    const children = world.rowsOf<{ state: string; error: string }>(
      'executions where parent_id is not null',
    )
    expect(children).toMatchObject([
      { state: 'cancelled', error: "Step 'w' timed out after 120000ms" },
    ])
  })

  const requiring =
    '{ name: inner, description: d, inputs: { n: { type: number, required: true } }, steps: [{ id: x, run: make }] }'

  test('[ABL24] is refused beyond ten in each other', async () => {
    const chain = Array.from({ length: 12 }, (_, at) =>
      copyOf(`{ name: c${at}, description: d, steps: [{ id: s, workflow: c${at + 1} }] }`),
    )
    const world = await new RunWorld().begin()
    const [first = inner, ...rest] = chain
    const { id } = await execute(world, first, {}, rest)
    const { error } = await settled(world, id)
    expect(error).toMatch(
      /^Step 's' failed: Ability 'c1' failed: .*More than 10 abilities in each other$/,
    )
    expect(world.rowsOf('executions')).toHaveLength(10)
  })
})

describe('what an ability calls', () => {
  const callers = (count: number) =>
    new Map(
      Array.from({ length: count }, (_, at) => {
        const yaml = `{ name: c${at}, description: d, steps: [{ id: s, workflow: c${at + 1} }] }`
        return [`c${at}`, copyOf(yaml)] as const
      }),
    )
  const called = (all: ReadonlyMap<string, AbilityCopy>) =>
    withCalledAbilities(
      async (name) => all.get(name) ?? null,
      ExecutionCreate.parse({ ability: 'c0' }),
    )

  test('[ABL15] is copied with it, once each, as long as it is not too much; what is not there is left out', async () => {
    const { ability, nested } = await called(callers(50))
    expect([ability.name, nested.length, nested.at(-1)?.name]).toEqual(['c0', 49, 'c49'])
    const loop = new Map([
      [
        'c0',
        copyOf(
          '{ name: c0, description: d, steps: [{ id: s, workflow: c1 }, { id: t, workflow: gone }] }',
        ),
      ],
      ['c1', copyOf('{ name: c1, description: d, steps: [{ id: s, workflow: c0 }] }')],
    ])
    expect((await called(loop)).nested.map(({ name }) => name)).toEqual(['c1'])
    await expect(called(new Map())).rejects.toMatchObject({ code: 'not_found' })
  })

  test.each([
    ['too many', () => callers(51)],
    ['too long', () => callers(48)],
  ])('[ABL15] is refused if it is %s', async (what, all) => {
    const found = all()
    if (what === 'too long')
      for (const copy of found.values()) copy.definition.guide = 'x'.repeat(40_000)
    await expect(called(found)).rejects.toMatchObject({
      code: 'unprocessable',
      message: expect.stringContaining('with what it calls it is too large') as string,
    })
  })
})

describe('what is seen of executions', () => {
  const one = copyOf(
    '{ name: one, description: d, steps: [{ id: a, run: make }, { id: b, run: ls }] }',
  )

  test('[ABL34] a list has pages, newest first', async () => {
    const world = await new RunWorld().begin()
    const ids: string[] = []
    for (let at = 0; at < 3; at += 1) {
      const { id } = await execute(world, one)
      ids.unshift(id)
      await world.actor.api.abilities.cancel(testCaller, id, { reason: '' })
    }
    const list = (limit: number, after: number | null) =>
      world.actor.api.abilities.list(testCaller, { limit, after })
    const first = await list(2, null)
    expect(first.items.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    const second = await list(2, first.next)
    expect([second.items.map(({ id }) => id), second.next]).toEqual([ids.slice(2), null])
    expect((await list(3, null)).next).toBeNull()
  })

  test('[ABL34] of a step: when it began and ended, and how long it took', async () => {
    const world = await new RunWorld().begin()
    const { id, startedAt } = await execute(world, one)
    await world.settle()
    await world.pass(500)
    await world.result(running(world).id, { exitCode: 0, output: 'made' })
    const record = await settled(world, id)
    expect(record).toMatchObject({
      ...{ currentStep: 'b', currentStepIndex: 1, completedSteps: ['a'], pendingSteps: [] },
      ...{ progress: '1/2', error: null, completedAt: null },
      steps: [
        {
          ...{ stepId: 'a', status: 'completed', output: 'made', exitCode: 0, tries: 1 },
          ...{ startedAt, completedAt: startedAt + 500, durationMs: 500 },
        },
        { stepId: 'b', status: 'running', completedAt: null, durationMs: null },
      ],
    })
    await world.actor.api.abilities.cancel(testCaller, id, { reason: '' })
    const over = await settled(world, id)
    expect(over).toMatchObject({ currentStep: null, currentStepIndex: null, waitsFor: [] })
    expect(over.steps[1]).toMatchObject({ status: 'failed', error: 'Cancelled by user' })
  })

  test('[ABL34] outputs beyond what fits are named as such, those of the first steps before those of the last', async () => {
    const world = await new RunWorld().begin()
    const many = copyOf(
      `{ name: many, description: d, steps: [${Array.from({ length: 12 }, (_, at) => `{ id: s${at}, run: make }`).join(', ')}] }`,
    )
    const { id } = await execute(world, many)
    for (let at = 0; at < 12; at += 1) {
      await world.settle()
      await world.result(running(world).id, { exitCode: 0, output: 'x'.repeat(190_000) })
    }
    const { status, steps } = await settled(world, id)
    expect(status).toBe('completed')
    const cut = steps.map(({ output }) => output === '(too long to be shown with the others)')
    expect(cut).toEqual([true, ...Array.from({ length: 11 }, () => false)])
  })
})

test('[ABL20] an agent that is told to go on has its time anew, also behind the turn of somebody else', async () => {
  const world = await new RunWorld().begin()
  const ability = copyOf(
    '{ name: silent, description: d, steps: [{ id: a, agent: build, prompt: Work, timeout: 2m }] }',
  )
  const { id } = await execute(world, ability)
  await world.settle()
  const first = prompts(world).at(-1) ?? { id: '' }
  await world.takePrompt(first)
  const own = await world.prompt()
  await world.endTurn(first)
  await world.settle()
  await world.takePrompt(own)
  await world.pass(180_000)
  expect((await settled(world, id)).steps[0]).toMatchObject({ status: 'running', tries: 1 })
})

describe('a machine that is suspended', () => {
  const night = 8 * 3_600_000
  /** With its sandbox, and an agent that calls again in a moment. */
  async function sleepIn(world: RunWorld): Promise<void> {
    for (const sandbox of world.sandboxes.running.values()) sandbox.endsAt += night
    world.silentSince = world.now
    await world.jump(night)
    world.silentSince = null
  }

  test('[ABL46] has not used up the time of an agent step, nor that of its ability', async () => {
    const world = await new RunWorld().begin()
    const ability = copyOf(
      '{ name: naps, description: d, settings: { timeout: 10m }, steps: [{ id: a, agent: build, prompt: Work, timeout: 2m }] }',
    )
    const { id } = await execute(world, ability)
    await world.settle()
    const [prompt] = prompts(world)
    await world.takePrompt({ id: prompt?.id ?? '' })
    await world.pass(30_000)
    await sleepIn(world)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(119_000)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(2000)
    expect((await settled(world, id)).error).toBe(
      "Step 'a' failed: Step 'a' timed out after 120000ms",
    )
  })

  test('[ABL46] has not used up the time of its ability: that counts anew', async () => {
    const world = await new RunWorld().begin()
    const ability = copyOf(
      `{ name: naps, description: d, settings: { timeout: 10m }, steps: [{ id: a, type: approval, prompt: 'Go on?', timeout: 1d }] }`.replace(
        '1d',
        '24h',
      ),
    )
    const { id } = await execute(world, ability)
    await world.pass(60_000)
    await sleepIn(world)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(599_000)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(2000)
    expect((await settled(world, id)).error).toBe("Ability 'naps' timed out after 600000ms")
  })

  test('[ABL46] is waited for by steps that wait for others: a turn in the queue, and another ability', async () => {
    const world = await new RunWorld().begin()
    const own = await world.prompt()
    await world.takePrompt(own)
    const ability = copyOf(
      '{ name: naps, description: d, steps: [{ id: a, agent: build, prompt: Work, timeout: 2m }, { id: w, workflow: inner, timeout: 5m }] }',
    )
    const inner = copyOf(
      `{ name: inner, description: d, steps: [{ id: q, type: approval, prompt: 'Go on?', timeout: 24h }] }`,
    )
    const { id } = await execute(world, ability, {}, [inner])
    await world.pass(60_000)
    await sleepIn(world)
    await world.endTurn(own)
    await world.settle()
    const turn = prompts(world).at(-1)
    await world.takePrompt({ id: turn?.id ?? '' })
    await world.pass(119_000)
    expect((await settled(world, id)).steps[0]).toMatchObject({ status: 'running' })
    const end = { turnId: turn?.id, state: 'completed', reason: null, text: 'done', diff: null }
    await world.emit(['turn.ended', end])
    await world.pass(60_000)
    await sleepIn(world)
    await world.pass(299_000)
    expect((await settled(world, id)).steps[1]).toMatchObject({ status: 'running' })
    await world.pass(2000)
    expect((await settled(world, id)).error).toBe(
      "Step 'w' failed: Step 'w' timed out after 300000ms",
    )
  })

  test('[ABL46] [LIFE27] has not lost the script that it ran: it is waited for once more', async () => {
    const world = await new RunWorld().begin()
    const ability = copyOf(
      '{ name: naps, description: d, steps: [{ id: a, run: make, timeout: 2m, on_failure: continue }] }',
    )
    const { id } = await execute(world, ability)
    await world.settle()
    await sleepIn(world)
    expect((await settled(world, id)).status).toBe('running')
    await world.result(running(world).id, { exitCode: 0, output: 'made' })
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'completed', steps: [{ status: 'completed', output: 'made' }] },
    })
  })
})
