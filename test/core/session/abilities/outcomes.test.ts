import { describe, expect, test } from 'vitest'
import { ExecutionCreate } from '../../../../src/contract/execution.ts'
import type { Execution, ExecutionRecord } from '../../../../src/contract/execution.ts'
import { parseAbilityDefinition } from '../../../../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../../../../src/core/session/executions/rows.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

// What came of steps, and what is kept of it: reasons, outputs, decisions, deadlines, runs.

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

const runOf = async (world: RunWorld, { runId }: { runId: string }) =>
  (await world.record(runId)).run

describe('an agent step', () => {
  const works = copyOf(
    '{ name: works, description: d, steps: [{ id: a, agent: build, prompt: Work, on_failure: continue }, { id: b, run: make }] }',
  )

  test.each([
    ['failed', 'no model', 'The turn has failed: no model'],
    ['failed', null, 'The turn has failed: '],
    ['interrupted', 'OpenCode died', 'The turn has been interrupted: OpenCode died'],
  ])('[ABL19] whose turn has %s (%s) says so', async (state, reason, error) => {
    const world = await new RunWorld().begin()
    const { id } = await execute(world, works)
    await world.settle()
    const turn = prompts(world).at(-1) ?? { id: '' }
    await world.takePrompt(turn)
    await world.endTurn(turn, state, reason)
    const record = await settled(world, id)
    expect(record.steps[0]).toMatchObject({ status: 'failed', error })
    expect(record.currentStep).toBe('b')
  })

  test('[ABL19] whose turn a person aborts says so, and is not tried again', async () => {
    const retried = copyOf(
      '{ name: retried, description: d, steps: [{ id: a, agent: build, prompt: Work, on_failure: retry, max_retries: 3 }] }',
    )
    const world = await new RunWorld().begin()
    const { id } = await execute(world, retried)
    await world.settle()
    const turn = prompts(world).at(-1) ?? { id: '' }
    await world.takePrompt(turn)
    await world.endTurn(turn, 'aborted', 'enough')
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'failed', error: "Step 'a' failed: The turn was aborted: enough" },
      steps: [{ tries: 1 }],
    })
  })

  test('[ABL25] that fails is tried once more where nobody says how often', async () => {
    const retried = copyOf(
      '{ name: retried, description: d, steps: [{ id: a, agent: build, prompt: Work, on_failure: retry }] }',
    )
    const world = await new RunWorld().begin()
    const { id } = await execute(world, retried)
    for (let turn = 1; turn < 5 && (await settled(world, id)).status === 'running'; turn += 1) {
      const prompt = prompts(world).at(-1) ?? { id: '' }
      await world.takePrompt(prompt)
      await world.endTurn(prompt, 'failed', 'no')
    }
    expect((await settled(world, id)).steps).toMatchObject([{ status: 'failed', tries: 2 }])
  })

  test.each([
    ['agent: build, prompt: Work', true],
    ["agent: build, prompt: Work, summarize: 'Be short'", false],
    ['agent: build, prompt: Work, summarize: true', null],
  ])(
    '[ABL20] has as its output the last text, whole or head and tail (%s)',
    async (step, whole) => {
      const world = await new RunWorld().begin()
      const { id } = await execute(
        world,
        copyOf(`{ name: says, description: d, steps: [{ id: a, ${step} }] }`),
      )
      await world.settle()
      const prompt = prompts(world).at(-1)!
      await world.takePrompt(prompt)
      const text = Array.from({ length: 60 }, (_, line) => `line ${line}`).join('\n')
      const end = { turnId: prompt.id, state: 'completed', reason: null, text, diff: null }
      await world.emit(['turn.ended', end])
      const [{ output } = { output: '' }] = (await settled(world, id)).steps
      if (whole === null)
        expect(output).toMatch(/^line 0\n[^]*line 19\n… 20 lines omitted …\nline 40\n[^]*line 59$/)
      else expect(output).toBe(text)
      expect(String(prompt.body['text']).includes('Be short')).toBe(whole === false)
    },
  )
})

describe('a script step', () => {
  test('[ABL16] has the outputs of steps in its environment, and not those of hooks', async () => {
    const hooked = copyOf(
      '{ name: hooked, description: d, hooks: { before: [ls], after: [pwd] }, steps: [{ id: a, run: make, validation: { file_exists: out.txt } }, { id: b, run: make b }] }',
    )
    const world = await new RunWorld().begin()
    const { id, runId } = await execute(world, hooked)
    const seen: unknown[] = []
    for (const change of [
      { output: 'files' },
      { output: 'one', found: true },
      {},
      { exitCode: 3 },
    ]) {
      await world.settle()
      const { body, id: attempt } = world.executes().at(-1)!
      const { command, environment, looksFor } = body['operation'] as Record<string, unknown>
      seen.push([
        command,
        looksFor,
        (environment as Record<string, string>)['ABILITY_STEP_OUTPUTS_JSON'],
      ])
      await world.result(attempt, { exitCode: 0, ...change })
    }
    const one = '{"a":{"status":"completed","output":"one","error":null}}'
    const both = one.replace('}}', '},"b":{"status":"completed","output":"out","error":null}}')
    expect(seen).toEqual([
      ['ls', undefined, '{}'],
      ['make', 'out.txt', '{}'],
      ['make b', undefined, one],
      ['pwd', undefined, both],
    ])
    const record = await settled(world, id)
    expect(record).toMatchObject({
      status: 'completed',
      progress: '2/2',
      completedSteps: ['a', 'b'],
    })
    expect(record.steps.map(({ part, status, exitCode }) => [part, status, exitCode])).toEqual([
      ['before', 'completed', 0],
      ['step', 'completed', 0],
      ['step', 'completed', 0],
      ['after', 'failed', 3],
    ])
    expect((await runOf(world, { runId })).status).toBe('completed')
  })

  test('[ABL26] whose result comes after all takes it, and nobody is asked any more', async () => {
    const world = await new RunWorld().begin()
    const one = copyOf('{ name: one, description: d, steps: [{ id: a, run: make, timeout: 1m }] }')
    const { id, runId } = await execute(world, one)
    await world.settle()
    const attempt = world.executes().at(-1)?.id ?? ''
    await world.pass(121_000)
    expect((await settled(world, id)).waitsFor).toMatchObject([
      { stepId: 'a', why: 'It may or may not have run: No result in time' },
    ])
    expect((await runOf(world, { runId })).status).toBe('needs-human')
    await world.result(attempt, { exitCode: 0, output: 'late' })
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'completed', waitsFor: [], steps: [{ output: 'late', error: null }] },
    })
    expect((await runOf(world, { runId })).status).toBe('completed')
  })

  test('[ABL36] needs no deadline of its own while its operation has one', async () => {
    const world = await new RunWorld().begin()
    const { id } = await execute(
      world,
      copyOf('{ name: one, description: d, steps: [{ id: a, run: make }] }'),
    )
    await world.settle()
    expect(Object.keys(world.deadlines())).not.toContain('ability')
    await world.actor.api.abilities.cancel(testCaller, id, { reason: '' })
    expect(Object.keys(world.deadlines())).not.toContain('ability')
  })

  test('[ABL39] that finds no budget is looked at again every minute', async () => {
    const world = await new RunWorld().begin({ budget: { toolCalls: 1 } })
    const two = copyOf(
      '{ name: two, description: d, steps: [{ id: a, run: make }, { id: b, run: make }] }',
    )
    await execute(world, two)
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
    await world.settle()
    expect(world.deadlines()['ability']).toBe(world.now + 60_000)
    expect(world.executes()).toHaveLength(1)
  })
})

describe('an approval step', () => {
  const asks = copyOf(
    '{ name: asks, description: d, steps: [{ id: a, type: approval, prompt: "Go?", on_failure: continue, options: [{ label: Yes, value: go }, { label: No, value: rejected }] }, { id: b, run: make }] }',
  )

  test('[ABL21] that is rejected by its own option has that as its output; what was decided is on record', async () => {
    const world = await new RunWorld().begin()
    const { id, runId } = await execute(world, asks)
    const [{ approvalId } = { approvalId: '' }] = (await settled(world, id)).waitsFor
    await world.resolve(approvalId ?? '', 'rejected', undefined, {
      option: 'rejected',
      reason: 'no',
    })
    expect((await settled(world, id)).steps[0]).toMatchObject({
      ...{ status: 'failed', output: 'rejected', error: 'Rejected: no' },
    })
    expect((await world.entries(runId, 'permission-decision'))[0]).toMatchObject({
      ...{ by: 'state', decision: 'ask', rule: 'ability', reason: 'Ability "asks" asks a person' },
      request: { category: 'provider-tool', operation: 'ability-approval', risks: [] },
    })
  })
})

describe('an execution', () => {
  const timed = copyOf(
    '{ name: timed, description: d, settings: { timeout: 1m }, steps: [{ id: a, run: make }] }',
  )

  test('[ABL28] ends in the moment in which its time is over, with its run', async () => {
    const world = await new RunWorld().begin()
    const { id, runId } = await execute(world, timed)
    await world.settle()
    await world.pass(59_999)
    expect((await settled(world, id)).status).toBe('running')
    await world.pass(1)
    expect((await settled(world, id)).error).toBe("Ability 'timed' timed out after 60000ms")
    expect(await runOf(world, { runId })).toMatchObject({
      ...{ status: 'failed', reason: "Ability 'timed' timed out after 60000ms" },
    })
  })

  test('[ABL18] [ABL34] that is cancelled cancels its run; nothing is active then', async () => {
    const world = await new RunWorld().begin()
    const { id, runId } = await execute(world, timed)
    const status = () => world.actor.api.abilities.status(testCaller)
    expect(await status()).toMatchObject({
      ...{ active: true, ability: 'timed', executionId: id, currentStep: 'a', status: 'running' },
    })
    await world.actor.api.abilities.cancel(testCaller, id, { reason: 'no' })
    expect((await runOf(world, { runId })).status).toBe('cancelled')
    expect(await status()).toEqual({
      ...{ active: false, ability: null, executionId: null },
      ...{ currentStep: null, progress: null, status: null },
    })
    // Again is the same; another end is refused.
    await world.actor.api.abilities.cancel(testCaller, id, { reason: 'again' })
    expect((await settled(world, id)).error).toBe('Cancelled by user: no')
    const done = await execute(world, timed)
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
    await expect(
      world.actor.api.abilities.cancel(testCaller, done.id, { reason: '' }),
    ).rejects.toMatchObject({
      code: 'wrong_state',
      message: expect.stringContaining('completed') as string,
    })
    await expect(
      world.actor.api.abilities.cancel(testCaller, 'exe_none', { reason: '' }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[ABL23] whose plan is rejected says why', async () => {
    const world = await new RunWorld().begin()
    const planned = copyOf(
      '{ name: planned, description: d, settings: { approval: plan }, steps: [{ id: a, run: make }] }',
    )
    const { id } = await execute(world, planned)
    const [{ approvalId, stepId } = { approvalId: '', stepId: '' }] = (await settled(world, id))
      .waitsFor
    expect(stepId).toBeNull()
    await world.resolve(approvalId ?? '', 'rejected', undefined, { reason: 'too much' })
    expect(await settled(world, id)).toMatchObject({
      ...{ status: 'failed', error: 'The plan was rejected: too much', progress: '0/1' },
    })
  })

  test('[ABL29] knows secret inputs in conditions, and passes them on alone', async () => {
    const world = await new RunWorld().begin()
    const child = copyOf(
      '{ name: child, description: d, inputs: { token: {} }, steps: [{ id: x, run: ls }] }',
    )
    const secretive = copyOf(
      `{ name: secretive, description: d, inputs: { token: { secret: true } }, settings: { on_failure: continue }, steps: [{ id: a, run: make, when: 'inputs.token == "hunter2-hunter2"' }, { id: b, run: make, when: 'inputs.token == "[secret]"' }, { id: w, workflow: child, inputs: { token: 'a {{inputs.token}}' } }] }`,
    )
    const create = { inputs: { token: 'hunter2-hunter2' } }
    const { id } = await execute(world, secretive, create, [child])
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
    const { steps } = await settled(world, id)
    expect(steps.map(({ status, error }) => [status, error])).toEqual([
      ['completed', null],
      ['skipped', 'Its condition does not hold: inputs.token == "[secret]"'],
      ['failed', 'A secret input is passed on alone: "{{inputs.NAME}}"'],
    ])
  })
})
