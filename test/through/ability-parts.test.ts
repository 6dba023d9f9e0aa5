import { expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'

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
