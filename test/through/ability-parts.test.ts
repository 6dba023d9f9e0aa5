import { expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'
import { report } from '../support/run-world.ts'

// What an ability's folder, skills, several approvers and a budget add to its execution, through the product.

const host = useHost()

/** Executions have an error of their own, so what is refused is seen by its status. */
async function ask(method: string, path: string, body?: object) {
  const { status, json } = await host().call(method, path, body)
  expect([path, status < 300 ? null : json.error.message]).toEqual([path, null])
  return json
}

const execute = (session: HostSession, ability: string) =>
  ask('POST', `${session.at}/executions`, { ability })

async function settled(id: string) {
  await host().live()
  return ask('GET', `/v1/executions/${id}`)
}

/** The agent's answer to the turn that it was given last. */
async function answerTurn(session: HostSession, change: Record<string, unknown>) {
  await host().live()
  const prompt = session.agent.commands('prompt').at(-1)!
  session.agent.result(prompt.id, { sent: true })
  session.agent.endTurn(prompt.id, change)
  await host().live()
  return prompt.body
}

test('[ABL37] scripts in hooks/before and hooks/after run from the pinned folder by name, and texts there reach the agents', async () => {
  const yaml = `
name: hook-files
description: d
hooks: { before: ['echo yaml'] }
steps: [{ id: a, agent: build, prompt: Work }]
`
  const files = Object.entries({
    'ability.yaml': yaml,
    'hooks/before/20-second.py': 'print(2)',
    'hooks/before/10-first.sh': 'echo 1',
    'hooks/before/validate.md': 'Look {{inputs.twice}}.\n',
    'hooks/after/notify.sh': 'echo done',
    'hooks/after/said.md': 'To nobody',
    'hooks/after/deep/er.sh': 'true',
    'hooks/after/a b.sh': 'true',
    'hooks/after/binary': 'true',
  }).map(([path, content]) => ({ path, content }))
  const { warnings } = await host().ok('PUT', '/v1/abilities', { files })
  expect(warnings).toEqual([
    expect.stringMatching(/^Nobody runs "hooks\/after\/a b\.sh": its name must have letters/),
    expect.stringMatching(/^Nobody runs "hooks\/after\/binary": its name must end with \.sh, /),
    expect.stringMatching(/^Nobody runs "hooks\/after\/deep\/er\.sh": it lies deeper/),
    expect.stringMatching(/^Nobody runs "hooks\/after\/said\.md": a text is only given/),
  ])
  const session = await host().begin()
  const plan = await host().ok('POST', '/v1/abilities/hook-files/plan', { sessionId: session.id })
  expect(plan.guides).toEqual(['hooks/before/validate.md'])
  const planned = plan.steps.map((step: { stepId: string; what: string; decision: string }) => [
    ...[step.stepId, step.what.replace(/\/c\/abilities\/[0-9a-f]{32}/, 'PINNED'), step.decision],
  ])
  expect(planned).toEqual([
    ['hooks.before.0', 'echo yaml', 'allow'],
    ['hooks.before.1', 'sh PINNED/hooks/before/10-first.sh', 'allow'],
    ['hooks.before.2', 'python3 PINNED/hooks/before/20-second.py', 'allow'],
    ['a', 'build: Work', null],
    ['hooks.after.0', 'sh PINNED/hooks/after/notify.sh', 'allow'],
  ])
  const { id } = await execute(session, 'hook-files')
  const ran: string[] = []
  for (let hook = 0; hook < 3; hook += 1) {
    await host().live()
    expect(session.agent.commands('prompt')).toEqual([])
    ran.push((await session.agent.execute({ exitCode: 0 })).operation.command ?? '')
  }
  const { text } = await answerTurn(session, { text: 'done' })
  expect(text).toBe(
    '## Before you begin\n\n### hooks/before/validate.md\n\nLook {{inputs.twice}}.\n\n---\n\n## Your task\n\nWork\n',
  )
  ran.push((await session.agent.execute({ exitCode: 0 })).operation.command ?? '')
  expect(ran).toEqual(
    plan.steps.flatMap(({ type, what }: { type: string; what: string }) =>
      type === 'script' ? [what] : [],
    ),
  )
  expect(await settled(id)).toMatchObject({ status: 'completed', progress: '1/1' })
})

const store = (yaml: string) =>
  host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content: yaml }] })

test('[ABL19] [ABL37] a skill step in a session that has the skill is a turn with its text and its inputs', async () => {
  const { id: skill } = await host().ok('PUT', '/v1/skills', { name: 'tidy', description: 'd' })
  const source = { kind: 'inline', content: 'Tidy up.' }
  await host().ok('POST', `/v1/skills/${skill}/versions`, { source, activate: true })
  const content = `
name: tidies
description: d
steps:
  - { id: a, skill: tidy, inputs: { where: src } }
  - { id: b, run: 'echo {{steps.a.output}}' }
  - { id: c, agent: build, prompt: Go on, needs: [a, b] }
`
  const files = [
    { path: 'ability.yaml', content },
    { path: 'hooks/before/rules.md', content: 'Be kind.' },
  ]
  await host().ok('PUT', '/v1/abilities', { files })
  const session = await host().begin({ skills: ['tidy'] })
  const { id } = await execute(session, 'tidies')
  const { text } = await answerTurn(session, { text: 'tidied' })
  expect(text).toBe(
    '## Before you begin\n\n### hooks/before/rules.md\n\nBe kind.\n\n---\n\n' +
      '## Skill: tidy\n\nTidy up.\n\n## Inputs\n\n- where: src\n\n## Your task\n\nDo what the skill says.\n',
  )
  const { operation } = await session.agent.execute({ exitCode: 0, output: 'told' })
  expect(operation.command).toBe("echo 'tidied'")
  const after = await answerTurn(session, { text: 'done' })
  expect(after.text).toContain('### Step: a (tidy)\n\n```\ntidied\n```\n\n### Step: b\n\n```\ntold')
  expect((await settled(id)).status).toBe('completed')
})

test('[ABL38] an approval step with a quorum waits until so many people have approved; one says no for all', async () => {
  await store(
    '{ name: two-people, description: d, steps: [{ id: a, type: approval, prompt: "OK?", quorum: 2 }, { id: b, run: "true" }] }',
  )
  const session = await host().begin()
  const people = [await host().newApprover('grace'), await host().newApprover('linus')]
  const vote = async (id: string, person: string, resolution: string) => {
    const [{ approvalId }] = (await settled(id)).waitsFor
    return host().call('POST', `/v1/approvals/${approvalId}/resolve`, { resolution }, person)
  }
  const { id } = await execute(session, 'two-people')
  expect((await vote(id, people[0]!, 'approved')).json).toMatchObject({ state: 'pending' })
  await vote(id, people[0]!, 'approved')
  expect((await settled(id)).waitsFor).toMatchObject([{ stepId: 'a' }])
  expect(session.agent.commands('execute')).toEqual([])
  expect((await vote(id, people[1]!, 'approved')).json).toMatchObject({ state: 'approved' })
  await host().live()
  await session.agent.execute({ exitCode: 0 })
  expect((await settled(id)).status).toBe('completed')
  const again = await execute(session, 'two-people')
  await vote(again.id, people[0]!, 'approved')
  await vote(again.id, people[1]!, 'rejected')
  const rejected = await settled(again.id)
  expect(rejected).toMatchObject({ status: 'failed', pendingSteps: ['b'] })
  expect(rejected.error).toMatch(/^Step 'a' failed: Rejected/)
})

test('[ABL39] with a spent budget no step begins; the execution waits, and goes on when it is raised', async () => {
  await store(
    '{ name: costly, description: d, steps: [{ id: a, run: "echo 1" }, { id: b, run: "echo 2" }] }',
  )
  const session = await host().begin({ budget: { wallSeconds: 3600 } })
  const { id, runId } = await execute(session, 'costly')
  await host().live()
  const running = await session.agent.command('execute')
  await host().ok('PUT', `${session.at}/budget`, { toolCalls: 0 })
  session.agent.result(running.id, report({ exitCode: 0 }))
  const waiting = await settled(id)
  expect(waiting).toMatchObject({ status: 'running', progress: '1/2', completedSteps: ['a'] })
  await host().live(600_000)
  expect(session.agent.commands('execute')).toHaveLength(1)
  expect((await host().ok('GET', `/v1/runs/${runId}`)).run.reason).toBe('budget')
  await host().ok('PUT', `${session.at}/budget`, { toolCalls: 9 })
  await host().live()
  await session.agent.execute({ exitCode: 0 })
  expect(await settled(id)).toMatchObject({ status: 'completed', progress: '2/2' })
})

test('[ABL32] a plan tells of each step what its author wrote, and what holds where nothing is written', async () => {
  const put = (content: string) =>
    host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content }] })
  await put('{ name: whole-plan/inner, description: d, steps: [{ id: x, run: ls }] }')
  await put(`
name: whole-plan
description: d
settings: { on_failure: continue }
inputs: { prod: { type: boolean, default: false } }
hooks: { before: [ls -a], after: [ls -b] }
steps:
  - { id: a, run: ls, description: First, timeout: 30s }
  - { id: b, agent: build, prompt: 'Work {{inputs.prod}}', when: not inputs.prod, on_failure: retry }
  - { id: c, run: ls, when: 'inputs.prod or steps.a.status == "failed"' }
  - { id: d, run: ls, when: 'inputs.prod and steps.a.status == "failed"', needs: [a] }
  - { id: e, workflow: whole-plan/inner, when: inputs.prod }
  - { id: f, skill: docs }
  - { id: g, type: approval, prompt: 'Prod: {{inputs.prod}}?' }
`)
  const session = await host().begin()
  const plan = await host().ok('POST', '/v1/abilities/whole-plan/plan', { sessionId: session.id })
  const told = plan.steps.map((step: Record<string, unknown>) =>
    [
      'stepId',
      'part',
      'description',
      'runs',
      'onFailure',
      'timeoutMs',
      'what',
      'asks',
      'needs',
    ].map((key) => step[key]),
  )
  const usual = 300_000
  expect(told).toEqual([
    ['hooks.before.0', 'before', null, 'yes', 'stop', usual, 'ls -a', false, []],
    ['a', 'step', 'First', 'yes', 'continue', 30_000, 'ls', false, []],
    ['b', 'step', null, 'yes', 'retry', usual, 'build: Work false', false, []],
    ['c', 'step', null, 'depends', 'continue', usual, 'ls', false, []],
    ['d', 'step', null, 'depends', 'continue', usual, 'ls', false, ['a']],
    ['e', 'step', null, 'no', 'continue', usual, 'whole-plan/inner', false, []],
    ['f', 'step', null, 'yes', 'continue', usual, 'docs', false, []],
    ['g', 'step', null, 'yes', 'continue', usual, 'Prod: false?', true, []],
    ['hooks.after.0', 'after', null, 'yes', 'continue', usual, 'ls -b', false, []],
  ])
  const problems = plan.steps.flatMap(({ stepId, problem }: { stepId: string; problem: string }) =>
    problem === null ? [] : [[stepId, problem]],
  )
  expect(problems).toEqual([['f', "Skill 'docs' is not available in this session"]])
})
