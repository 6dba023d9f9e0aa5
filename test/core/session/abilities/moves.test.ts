import { describe, expect, test } from 'vitest'
import { ExecutionCreate } from '../../../../src/contract/execution.ts'
import { parseAbilityDefinition } from '../../../../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../../../../src/core/session/executions/rows.ts'
import { countStatements } from '../../../support/count-statements.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

// What moves executions, where what it keeps in memory between commits could differ from the tables.

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
) =>
  world.actor.api.abilities.execute(
    testCaller,
    { create: ExecutionCreate.parse({ ability: ability.name, ...create }), ability, nested },
    null,
  )

/** What the sandbox was told to run last. */
/** Nothing is left of the session's slice, and the organisation gives more once `answered` is. */
function spendAll(world: RunWorld, answered: () => Promise<void>): void {
  const granted = { wallMs: 1e9, toolCalls: 1e9, tokens: 1e9, moneyMicros: 1e9 }
  world.organisation.shared = {
    take: async () => {
      await answered()
      return { granted, reason: '', warnings: [] }
    },
    giveBack: async () => undefined,
  }
  world.sql.run('update slice set granted = ?', JSON.stringify({ ...granted, toolCalls: 0 }))
}

const running = (world: RunWorld) => {
  const command = world.executes().at(-1)
  const { operation } = (command?.body ?? {}) as { operation?: { command: string } }
  return { id: command?.id ?? '', ...operation }
}

/** What the policy was asked about last: it has a person look at commands with variables in them. */
const decided = (world: RunWorld) => {
  const [last] = world.rowsOf<{ operation: string }>('operations order by n desc limit 1')
  return last && (JSON.parse(last.operation) as { environment: Record<string, string> })
}

const executions = (world: RunWorld) =>
  world.rowsOf<{ ability: string; state: string; error: string | null }>('executions order by n')

describe('a parent whose time is over while its child is at work', () => {
  const inner = copyOf('{ name: inner, description: d, steps: [{ id: x, run: make }] }')
  const outer = copyOf(
    '{ name: outer, description: d, settings: { timeout: 1m }, steps: [{ id: w, workflow: inner }] }',
  )

  test('[ABL28] [ABL30] ends with it, each once', async () => {
    const world = await new RunWorld().begin()
    await execute(world, outer, {}, [inner])
    await world.settle()
    await world.pass(61_000)
    expect(executions(world).map(({ ability, state }) => [ability, state])).toEqual([
      ['outer', 'failed'],
      ['inner', 'cancelled'],
    ])
    const ends = await world.events('ability.ended')
    expect(ends).toHaveLength(2)
    expect(world.commands().filter(({ kind }) => kind === 'cancel')).toHaveLength(1)
  })
})

test('[ABL46] [LIFE27] a parent whose child is at work counts its time anew after a suspension, and looks again when it is over', async () => {
  const inner = copyOf(
    "{ name: inner, description: d, steps: [{ id: q, type: approval, prompt: 'Go on?', timeout: 24h }] }",
  )
  const outer = copyOf(
    '{ name: outer, description: d, settings: { timeout: 10m }, steps: [{ id: w, workflow: inner, timeout: 1h }] }',
  )
  const world = await new RunWorld().begin()
  await execute(world, outer, {}, [inner])
  await world.pass(60_000)
  world.now += 8 * 3_600_000
  let alarms = 0
  for (; world.armedAt !== null && world.armedAt <= world.now && alarms < 20; alarms += 1) {
    world.armedAt = null
    void world.actor.runDue()
    await world.settle()
  }
  expect(alarms).toBeLessThan(5)
  expect(world.deadlines()['ability']).toBe(world.now + 600_000)
  expect(executions(world).map(({ state }) => state)).toEqual(['running', 'running'])
  await world.pass(600_000)
  expect(executions(world).map(({ state }) => state)).toEqual(['failed', 'cancelled'])
})

describe('the folder of an execution', () => {
  const asking = copyOf(
    '{ name: asking, description: d, steps: [{ id: q, type: approval, prompt: Well }] }',
  )
  const file = { path: 'a.sh', content: 'echo hunter2-hunter2' }
  const shown = { files: [{ path: 'a.sh', content: 'echo [secret:TOKEN]' }] }

  async function begun() {
    const world = await new RunWorld().begin()
    const { id } = await execute(world, asking)
    await world.settle()
    const giveSecret = async () => {
      const sealed = await world.crypto.seal('hunter2-hunter2')
      void world.actor.api.env.submit(testCaller, [{ key: 'TOKEN', sealed, kind: 'secret' }])
      await world.settle()
    }
    return { world, id, giveSecret, files: () => world.actor.api.abilities.files(testCaller, id) }
  }

  test.each(['at work', 'over'])(
    '[ABL47] [SEC9] is shown without secrets by an instance that has just woken (%s)',
    async (how) => {
      const { world, id, files, giveSecret } = await begun()
      await giveSecret()
      world.abilityFiles = async () => [file]
      if (how === 'over') await world.actor.api.abilities.cancel(testCaller, id, { reason: '' })
      await world.settle()
      world.restart()
      expect(await files()).toEqual(shown)
    },
  )

  describe('while its files are read', () => {
    async function reading() {
      const story = await begun()
      let found = () => {}
      const reads = new Promise<void>((resolve) => (found = resolve))
      story.world.abilityFiles = async () => {
        await reads
        return [file]
      }
      const asked = story.files()
      await story.world.settle()
      return { ...story, asked, found }
    }

    test('[ABL47] [SEC9] a secret may be given: it is not shown', async () => {
      const { asked, found, giveSecret } = await reading()
      await giveSecret()
      found()
      expect(await asked).toEqual(shown)
    })

    test('[ABL47] [SES6] the session may be deleted: it is not found', async () => {
      const { world, asked, found } = await reading()
      await world.actor.api.self.erase(testCaller)
      found()
      await expect(asked).rejects.toMatchObject({ code: 'not_found' })
    })
  })
})

test('[ABL36] a step goes on from the tables after a commit that failed, and from none that it only remembers', async () => {
  const world = await new RunWorld().begin()
  const two = copyOf(
    '{ name: two, description: d, steps: [{ id: a, run: make a }, { id: b, run: make b }] }',
  )
  await execute(world, two)
  await world.settle()
  const real = world.sql.run.bind(world.sql)
  let fails = true
  world.sql.run = (statement, ...values) => {
    // Of the commit that begins the second step: the first is told as completed in it.
    if (fails && statement.includes('insert into operations')) throw new Error('away')
    real(statement, ...values)
  }
  await world.result(running(world).id, { exitCode: 0, output: 'one' })
  expect(world.executes()).toHaveLength(1)
  fails = false
  await world.pass(6000)
  expect(running(world).command).toBe('make b')
  await world.result(running(world).id, { exitCode: 0 })
  expect(executions(world)).toMatchObject([{ state: 'completed' }])
  const told = (await world.events('ability.step')) as { stepId: string; status: string }[]
  expect(told.map(({ stepId, status }) => `${stepId} ${status}`)).toEqual([
    ...['a running', 'a completed', 'b running', 'b completed'],
  ])
})

test('[ABL29] an execution that begins while another one waits for budget has its secrets', async () => {
  const world = await new RunWorld().begin()
  const plain = copyOf('{ name: plain, description: d, steps: [{ id: a, run: make }] }')
  const secretive = copyOf(
    "{ name: secretive, description: d, inputs: { token: { secret: true } }, steps: [{ id: a, run: 'make {{inputs.token}}' }] }",
  )
  // The organisation does not answer for a while.
  const answers: (() => void)[] = []
  spendAll(world, () => new Promise<void>((answer) => answers.push(answer)))
  const first = await execute(world, plain)
  await world.settle()
  await world.actor.api.abilities.cancel(testCaller, first.id, { reason: '' })
  await execute(world, secretive, { inputs: { token: 'hunter2-hunter2' } })
  for (let round = 0; round < 5; round += 1) {
    for (const answer of answers.splice(0)) answer()
    await world.settle()
  }
  expect(decided(world)?.environment).toMatchObject({ ABILITY_SECRET_1: 'hunter2-hunter2' })
})

test('[ABL29] neither does it move before they are open, if others have opened what the session keeps out of records', async () => {
  const world = await new RunWorld().begin()
  const plain = copyOf('{ name: plain, description: d, steps: [{ id: a, run: make }] }')
  const secretive = copyOf(
    `{ name: secretive, description: d, inputs: { token: { secret: true } }, steps: [{ id: a, run: make, when: 'inputs.token == "hunter2-hunter2"' }] }`,
  )
  let answer = () => {}
  const answered = new Promise<void>((resolve) => (answer = resolve))
  spendAll(world, () => answered)
  const first = await execute(world, plain)
  await world.settle()
  await world.actor.api.abilities.cancel(testCaller, first.id, { reason: '' })
  await execute(world, secretive, { inputs: { token: 'hunter2-hunter2' } })
  const prompted = world.prompt('hello')
  await world.settle()
  answer()
  await prompted
  await world.settle()
  expect(decided(world)?.environment).toMatchObject({ ABILITY_SECRET_1: 'hunter2-hunter2' })
})

test('[ABL25] [ABL29] an instance that has not opened the secrets of an execution takes what a person says of its step', async () => {
  const world = await new RunWorld().begin()
  const asking = copyOf(
    '{ name: asking, description: d, inputs: { token: { secret: true } }, settings: { on_failure: ask }, steps: [{ id: a, run: make }] }',
  )
  const { id } = await execute(world, asking, { inputs: { token: 'hunter2-hunter2' } })
  await world.settle()
  await world.result(running(world).id, { exitCode: 1 })
  const say = () =>
    world.actor.api.abilities.resume(testCaller, id, { stepId: 'a', answer: 'stop', reason: '' })
  world.restart()
  await say()
  await world.settle()
  expect(executions(world)).toMatchObject([{ state: 'failed' }])
  world.restart()
  await expect(say()).rejects.toMatchObject({ code: 'wrong_state' })
})

describe('a secret input of an ability that another one calls', () => {
  const inner = copyOf(
    "{ name: inner, description: d, inputs: { token: { secret: true, default: none } }, steps: [{ id: x, run: 'make {{inputs.token}}' }] }",
  )
  const outerWith = (inputs: string) =>
    copyOf(
      `{ name: outer, description: d, inputs: { open: { default: word }, own: { secret: true } }, steps: [{ id: w, workflow: inner, inputs: ${inputs} }] }`,
    )

  test('[ABL29] is a secret input of the one that calls', async () => {
    const world = await new RunWorld().begin()
    const create = { inputs: { own: 'hunter2-hunter2' } }
    await execute(world, outerWith("{ token: '{{inputs.own}}' }"), create, [inner])
    await world.settle()
    expect(decided(world)?.environment).toMatchObject({ ABILITY_SECRET_1: 'hunter2-hunter2' })
  })

  test.each(["{ token: 'written' }", "{ token: '{{inputs.open}}' }", '{}'])(
    '[ABL29] is nothing else: its script would get the mask (%s)',
    async (inputs) => {
      const world = await new RunWorld().begin()
      await execute(world, outerWith(inputs), {}, [inner])
      await world.settle()
      expect(world.executes()).toEqual([])
      expect(executions(world)).toMatchObject([
        {
          state: 'failed',
          error:
            "Step 'w' failed: Input 'token' of 'inner' is secret: it is given by a secret input, as \"{{inputs.NAME}}\"",
        },
      ])
    },
  )
})

describe('what a script step costs', () => {
  /** Statements and transactions until so many operations have come to their end, one after the other. */
  async function counted(world: RunWorld, count: number, next: (at: number) => Promise<unknown>) {
    const ended = countStatements(world.sql)
    for (let at = 0; at < count; at += 1) {
      await next(at)
      await world.settle()
      await world.result(running(world).id, { exitCode: 0 })
    }
    return ended()
  }

  const steps = (count: number) =>
    copyOf(
      `{ name: many, description: d, steps: [${Array.from({ length: count }, (_, at) => `{ id: s${at}, run: make }`).join(', ')}] }`,
    )

  async function ofAbility(count: number): Promise<number> {
    const world = await new RunWorld().begin()
    return counted(world, count, async (at) => (at === 0 ? execute(world, steps(count)) : null))
  }

  async function ofOperations(count: number): Promise<number> {
    const world = await new RunWorld().begin()
    const { id } = await world.createRun()
    return counted(world, count, () => world.execute(id, { ...operations.allow }))
  }

  test('[ABL45] is at most 1.3 times the statements of an operation alone', async () => {
    const perStep = (await ofAbility(12)) - (await ofAbility(2))
    const perOperation = (await ofOperations(12)) - (await ofOperations(2))
    expect(perStep / perOperation).toBeLessThanOrEqual(1.3)
  })
})
