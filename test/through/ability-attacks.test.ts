import { describe, expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'
import { report } from '../support/run-world.ts'

// What somebody tries who wants more of a session with a running ability than its step gives.

const host = useHost()

const store = (yaml: string) =>
  host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content: yaml }] })

async function execute(session: HostSession, ability: string, inputs: object = {}) {
  const { status, json } = await host().call('POST', `${session.at}/executions`, {
    ability,
    inputs,
  })
  expect([ability, status, json.error]).toEqual([ability, 201, null])
  await host().live()
  return json
}

async function settled(id: string) {
  await host().live()
  return (await host().call('GET', `/v1/executions/${id}`)).json
}

const decide = async (session: HostSession, tool: string, input: unknown = {}, from: object = {}) =>
  session.agent.answerTo(await session.ask(tool, input, from))?.decision ?? 'waits'

const approve = (approvalId: string, key?: string) =>
  host().call('POST', `/v1/approvals/${approvalId}/resolve`, { resolution: 'approved' }, key)

/** The agent takes the prompt that it was given last. */
async function take(session: HostSession): Promise<string> {
  await host().live()
  const { id } = session.agent.commands('prompt').at(-1)!
  session.agent.result(id, { sent: true })
  await host().live()
  return id
}

describe('a tool that a person approves while the ability is at a step that does not have it', () => {
  test.each(['strict', 'normal'])('[ABX7] is refused (%s)', async (enforcement) => {
    await store(
      `{ name: late-${enforcement}, description: d, settings: { enforcement: ${enforcement} }, steps: [{ id: a, run: make }] }`,
    )
    const session = await host().begin()
    const turn = await session.prompt()
    const asked = await session.ask('bash', { command: 'sudo ls' })
    expect(session.agent.answerTo(asked)).toBeNull()
    const { id } = await execute(session, `late-${enforcement}`)
    await approve(session.approvalOf(asked))
    await host().live()
    expect(session.agent.answerTo(asked)).toMatchObject({ decision: 'deny' })
    expect(session.agent.answerTo(asked)?.reason).toMatch(/at step "a" \(script\)/)
    await session.agent.execute({ exitCode: 0 })
    expect((await settled(id)).status).toBe('completed')
    session.agent.endTurn(turn.id, { text: 'ok' })
  })

  test('[ABX7] goes on if nothing has it in the way', async () => {
    await store(
      '{ name: late-loose, description: d, settings: { enforcement: loose }, steps: [{ id: a, run: make }] }',
    )
    const session = await host().begin()
    await session.prompt()
    const asked = await session.ask('bash', { command: 'sudo ls' })
    await execute(session, 'late-loose')
    await approve(session.approvalOf(asked))
    await host().live()
    expect(session.agent.answerTo(asked)).toMatchObject({ decision: 'allow' })
  })
})

test('[ABX1] names that only look like those of reading tools are not', async () => {
  await store('{ name: odd, description: d, steps: [{ id: a, run: make }] }')
  const session = await host().begin()
  await session.prompt()
  await execute(session, 'odd')
  const odd = [
    ...['Read', 'READ', ' read', 'read ', 'read\n', 'read\u0000', 'ｒead', 'reаd', 'lsp_rename'],
    ...['lsp_', 'batch', 'multiedit', 'task', 'ability_run', 'ability.run', 'Ability_Cancel'],
    ...['mcp_read', 'github_read', 'read.write', 'toString', 'constructor', '__proto__'],
  ]
  for (const tool of odd) expect([tool, await decide(session, tool)]).toEqual([tool, 'deny'])
})

describe('prompts of people in the middle of an agent step', () => {
  const yaml = (name: string) =>
    `{ name: ${name}, description: d, steps: [{ id: a, agent: build, prompt: Work, tools: [write] }, { id: b, run: 'echo {{steps.a.output}}' }] }`

  test('[ABL19] [ABX1] one that is queued comes after the step, and what it says is not the step’s; in it nothing is open', async () => {
    await store(yaml('queued'))
    const session = await host().begin()
    const { id } = await execute(session, 'queued')
    const step = await take(session)
    const own = await host().ok('POST', `${session.at}/prompts`, { text: 'mine' })
    session.agent.endTurn(step, { text: 'of the step' })
    await host().live()
    expect(await take(session)).toBe(own.id)
    expect(await decide(session, 'write', { content: 'b', filePath: 'a' })).toBe('deny')
    session.agent.endTurn(own.id, { text: 'of mine' })
    await host().live()
    const { operation } = await session.agent.execute({ exitCode: 0 })
    expect(operation.command).toBe("echo 'of the step'")
    expect((await settled(id)).status).toBe('completed')
  })

  test('[ABL19] [ABX1] one that was there before goes first, and has nothing of the step', async () => {
    await store(yaml('before'))
    const session = await host().begin()
    const first = await session.prompt()
    const own = await host().ok('POST', `${session.at}/prompts`, { text: 'mine' })
    const { id } = await execute(session, 'before')
    expect(await decide(session, 'write', { content: 'b', filePath: 'a' })).toBe('deny')
    session.agent.endTurn(first.id, { text: 'x' })
    expect(await take(session)).toBe(own.id)
    expect(await decide(session, 'write', { content: 'b', filePath: 'a' })).toBe('deny')
    session.agent.endTurn(own.id, { text: 'y' })
    const step = await take(session)
    expect(await decide(session, 'write', { content: 'b', filePath: 'a' })).toBe('allow')
    expect(await decide(session, 'bash', { command: 'ls' })).toBe('deny')
    // A question of a turn that is over has no part in it.
    expect(
      await decide(session, 'write', { content: 'b', filePath: 'a' }, { turnId: own.id }),
    ).toBe('deny')
    session.agent.endTurn(step, { text: 'of the step' })
    await host().live()
    await session.agent.execute({ exitCode: 0 })
    expect((await settled(id)).status).toBe('completed')
  })
})

describe('what ends a session in the middle of a step', () => {
  const steps = {
    script: '{ id: a, run: make }',
    agent: '{ id: a, agent: build, prompt: Work }',
    approval: '{ id: a, type: approval, prompt: "Go?" }',
    workflow: '{ id: a, workflow: inner-of-ends }',
  }
  const kinds = Object.keys(steps) as (keyof typeof steps)[]

  async function begin(kind: keyof typeof steps, what: string) {
    await store('{ name: inner-of-ends, description: d, steps: [{ id: x, run: make }] }')
    await store(
      `{ name: ends-${kind}-${what}, description: d, steps: [${steps[kind]}, { id: b, run: 'make b' }] }`,
    )
    const session = await host().begin({ idleTimeoutSeconds: 300 })
    const { id } = await execute(session, `ends-${kind}-${what}`)
    if (kind === 'agent') await take(session)
    return { session, id }
  }

  test.each(kinds)('[ABL18] closing it cancels (%s)', async (kind) => {
    const { session, id } = await begin(kind, 'close')
    await host().ok('POST', `${session.at}/close`, {})
    await host().live(10_000)
    const { status, steps: all } = await settled(id)
    expect(status).toBe('cancelled')
    expect(all.map((step: { status: string }) => step.status)).toEqual(['failed', 'pending'])
    const { items } = await host().ok('GET', `${session.at}/executions`)
    for (const one of items) expect([one.ability, one.status]).toEqual([one.ability, 'cancelled'])
  })

  test.each(kinds)('[ABL18] closing its run cancels (%s)', async (kind) => {
    const { session, id } = await begin(kind, 'run')
    const { runId } = await settled(id)
    await host().ok('POST', `/v1/runs/${runId}/finish`, { status: 'cancelled', reason: 'enough' })
    expect(await settled(id)).toMatchObject({ status: 'cancelled' })
    const { items } = await host().ok('GET', `${session.at}/executions`)
    for (const one of items) expect([one.ability, one.status]).toEqual([one.ability, 'cancelled'])
  })

  test.each(kinds)(
    '[ABL26] [ABL36] a sandbox that is lost: it asks a person, or begins again, and never stands still (%s)',
    async (kind) => {
      const { session, id } = await begin(kind, 'lost')
      await host().ok('POST', `${session.at}/replace`, {})
      await host().live()
      await session.meet()
      await host().live()
      for (let round = 0; round < 6; round += 1) {
        const record = await settled(id)
        if (record.status !== 'running') break
        for (const { executionId, stepId, approvalId } of record.waitsFor)
          if (approvalId !== null) await approve(approvalId)
          else
            await host().call('POST', `/v1/executions/${executionId}/resume`, {
              ...{ stepId, answer: 'skip' },
            })
        await host().live()
        const waiting = session.agent.commands('execute').length
        if (waiting > 0) await session.agent.execute({ exitCode: 0 }).catch(() => undefined)
      }
      const record = await settled(id)
      expect(record.status).not.toBe('running')
      if (kind === 'agent') expect(record).toMatchObject({ status: 'failed', error: /interrupted/ })
      else expect(record.status).toBe('completed')
    },
  )

  test('[ABL36] a session that is idle while a script runs or a person is asked does not lose it', async () => {
    const { session, id } = await begin('script', 'idle')
    for (let minute = 0; minute < 4; minute += 1) await host().live(60_000)
    const running = await host().ok('GET', session.at)
    expect(running.sandbox.state).toBe('ready')
    await session.agent.execute({ exitCode: 0 })
    await host().live()
    await session.agent.execute({ exitCode: 0 })
    expect((await settled(id)).status).toBe('completed')
  })
})

test('[ABL36] a sandbox that sleeps while a person is asked wakes for the step after it', async () => {
  await store(
    '{ name: sleepy, description: d, steps: [{ id: a, type: approval, prompt: "Go?", timeout: 10h }, { id: b, run: make }] }',
  )
  const session = await host().begin({ idleTimeoutSeconds: 300 })
  const { id } = await execute(session, 'sleepy')
  for (let round = 0; round < 30; round += 1) await host().live(60_000)
  expect((await host().ok('GET', session.at)).sandbox.state).toBe('stopped')
  const [{ approvalId }] = (await settled(id)).waitsFor
  await approve(approvalId)
  await host().live()
  await session.meet()
  await session.agent.execute({ exitCode: 0 })
  expect((await settled(id)).status).toBe('completed')
})

describe('an automation', () => {
  const complete = (session: HostSession, enforcement: string, completionId: string) =>
    session.callback(
      'automation.complete',
      { run_id: `auto-${enforcement}`, completion_id: completionId, outcome: 'succeeded' },
      completionId,
    )
  const begin = async (enforcement: string) => {
    await store(
      `{ name: auto-${enforcement}, description: d, settings: { enforcement: ${enforcement} }, steps: [{ id: a, agent: build, prompt: Work }, { id: b, run: make }] }`,
    )
    const configurationId = await host().configuration()
    const session = await host().begin({
      ...{ configurationId, clientType: 'automation', automationRunId: `auto-${enforcement}` },
    })
    const { id } = await execute(session, `auto-${enforcement}`)
    return { session, id, step: await take(session) }
  }

  test('[ABX10] is not completed in the middle of a strict ability, by nobody who calls the tool', async () => {
    const { session, id, step } = await begin('strict')
    const held = await complete(session, 'strict', 'one')
    expect(held.json).toMatchObject({ success: false, data: { reason: 'held' } })
    expect(held.json.result).toContain('"auto-strict" is at work and is strict')
    session.agent.endTurn(step, { text: 'done' })
    await host().live(5000)
    await session.agent.execute({ exitCode: 0 })
    expect((await settled(id)).status).toBe('completed')
    expect((await complete(session, 'strict', 'two')).json).toMatchObject({ success: true })
  })

  test('[ABX10] may be completed in one that can be left, which is then cancelled', async () => {
    const { session, id, step } = await begin('normal')
    expect((await complete(session, 'normal', 'one')).json).toMatchObject({ success: true })
    session.agent.endTurn(step, { text: 'done' })
    await host().live(5000)
    expect((await settled(id)).status).toBe('cancelled')
  })
})

test('[ABL17] many who execute at once: one is at work, and everybody else is told which', async () => {
  await store('{ name: crowd, description: d, steps: [{ id: a, run: make }] }')
  const session = await host().begin()
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      host().call('POST', `${session.at}/executions`, { ability: 'crowd' }),
    ),
  )
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
    ...[201, 409, 409, 409, 409, 409, 409, 409],
  ])
  await host().live()
  expect(session.agent.commands('execute')).toHaveLength(1)
})

test('[ABL15] an ability that is removed or changed while it runs goes on as it was, with its files', async () => {
  const yaml =
    '{ name: gone, description: d, steps: [{ id: a, run: ./s.sh }, { id: b, run: ./s.sh }] }'
  const folder = (content: string) => [
    { path: 'ability.yaml', content: yaml },
    { path: 's.sh', content },
  ]
  const { hash } = await host().ok('PUT', '/v1/abilities', { files: folder('echo 1') })
  const session = await host().begin()
  const { id } = await execute(session, 'gone')
  await session.agent.execute({ exitCode: 0 })
  await host().ok('DELETE', '/v1/abilities/gone')
  await host().live()
  const kept = await host().ok(
    ...(['GET', `/sandbox/${session.id}/abilities/${hash}`, undefined, session.token] as const),
  )
  expect(kept.files).toEqual(folder('echo 1'))
  const { operation } = await session.agent.execute({ exitCode: 0 })
  expect(operation.ability).toBe(hash)
  expect((await settled(id)).status).toBe('completed')
})

test('[ABL38] two keys of one member are one person for a quorum', async () => {
  await store(
    '{ name: pair, description: d, steps: [{ id: a, type: approval, prompt: "?", quorum: 2 }] }',
  )
  const session = await host().begin()
  const [one, other] = [await host().newApprover('pia'), await host().newApprover('pia')]
  const { id } = await execute(session, 'pair')
  const [{ approvalId }] = (await settled(id)).waitsFor
  await approve(approvalId, one)
  await approve(approvalId, other)
  expect((await settled(id)).status).toBe('running')
  await approve(approvalId, await host().newApprover('paul'))
  expect((await settled(id)).status).toBe('completed')
})

test('[ABL8] [ABL9] names that every object has are names as any other', async () => {
  await store(`
name: named
description: d
inputs: { constructor: {}, toString: { type: boolean } }
steps:
  - { id: constructor, run: 'echo a{{inputs.constructor}}', when: inputs.constructor == null }
  - { id: b, run: 'echo b', when: inputs.toString != null }
  - { id: c, workflow: named/inner, inputs: { valueOf: '{{inputs.constructor}}' } }
  - { id: d, run: 'echo {{steps.constructor.output}}' }
`)
  await store(
    '{ name: named/inner, description: d, inputs: { valueOf: { default: none } }, steps: [{ id: x, run: "echo {{inputs.valueOf}}" }] }',
  )
  const session = await host().begin()
  const { id } = await execute(session, 'named')
  const said: string[] = []
  for (let script = 0; script < 3; script += 1) {
    const { operation } = await session.agent.execute({ output: `o${script}`, exitCode: 0 })
    said.push(operation.command ?? '')
    await host().live()
  }
  expect(said).toEqual(["echo a''", "echo 'none'", "echo 'o0'"])
  expect((await settled(id)).status).toBe('completed')
})

test('[ABL16] inputs that no program could be given fail the script, and say so; an agent still gets them', async () => {
  await store(
    '{ name: wide, description: d, inputs: { text: {} }, steps: [{ id: a, run: make, on_failure: continue }, { id: b, agent: build, prompt: "Read {{inputs.text}}" }] }',
  )
  const session = await host().begin()
  const text = 'é'.repeat(61_000)
  const { id } = await execute(session, 'wide', { text })
  expect((await settled(id)).steps[0]).toMatchObject({
    status: 'failed',
    error: 'ABILITY_INPUTS_JSON has more than the 120000 bytes that a program can be given',
  })
  expect(session.agent.commands('execute')).toEqual([])
  expect(session.agent.commands('prompt').at(-1)?.body.text).toContain(text)
})

test('[ABL22] [ABL23] a policy that becomes stricter in the middle holds from the next step on, also where the plan was approved', async () => {
  await store(
    '{ name: stricter, description: d, settings: { approval: plan }, steps: [{ id: a, run: "rm -rf build" }, { id: b, run: "rm -rf dist" }] }',
  )
  const session = await host().begin({ project: 'stricter' })
  const { id } = await execute(session, 'stricter')
  const [{ approvalId }] = (await settled(id)).waitsFor
  await approve(approvalId)
  await host().live()
  const running = await session.agent.command('execute')
  const rules = [{ match: { category: 'shell' }, decision: 'deny' }]
  await host().ok('PUT', '/v1/policies', {
    ...{ project: 'stricter', format: 'json', source: JSON.stringify({ name: 'p', rules }) },
  })
  await host().ok('POST', `${session.at}/policy`)
  session.agent.result(running.id, report({ exitCode: 0 }))
  const record = await settled(id)
  expect(record.steps.map(({ status }: { status: string }) => status)).toEqual([
    ...['completed', 'failed'],
  ])
  expect(record.error).toMatch(/^Step 'b' failed: Denied by policy/)
  expect(session.agent.commands('execute')).toHaveLength(1)
})
