import { describe, expect, test } from 'vitest'
import type { PermissionRecord } from '../../../../src/contract/permission-record.ts'
import { Operation } from '../../../../src/contract/operation.ts'
import { operations, other, person, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }
const decisions = async (world: RunWorld, runId: string) =>
  (await world.entries(runId, 'permission-decision')) as unknown as PermissionRecord[]
const asking = (tool: string) => policyOf({ rules: [{ match: { tool }, decision: 'ask' }] })

describe('what is asked', () => {
  test('[GATE9] a real path that is known already is not counted twice, nor is what is ambiguous anyway', async () => {
    const world = await new RunWorld().begin()
    const { runId } = await world.prompt()
    const path = '/home/user/workspace/a'
    await world.ask('read', { filePath: 'a' }, { realPaths: [path, '/home/user/workspace/b'] })
    await world.ask('bash', { command: 'eval "$X"' }, { shortened: true })
    const [read, shell] = await decisions(world, runId ?? '')
    expect(read?.request.paths).toEqual([path, '/home/user/workspace/b'])
    expect(shell?.request.risks.filter((risk) => risk === 'ambiguous')).toHaveLength(1)
  })

  test('[POL1] the env file and the tool output are inside, wherever the sandbox has them', async () => {
    const world = await new RunWorld().begin()
    await world.prompt()
    const may = async (filePath: string) => world.answerTo(await world.ask('read', { filePath }))
    const output = '.local/share/opencode/tool-output/1'
    expect([
      await may('/tmp/.proliferate_env.json'),
      await may(`/home/user/${output}`),
      await may('/home/user/.local/share/opencode/other'),
    ]).toEqual(['allow', 'allow', 'deny'])
    const { layout } = await world.actor.api.agent.manifest({ ...testCaller, generation: 1 })
    expect([layout.home, layout.envFile]).not.toContain('/home/user')
    expect([
      await may(layout.envFile),
      await may(`${layout.home}/${output}`),
      await may(`/home/user/${output}`),
    ]).toEqual(['allow', 'allow', 'deny'])
  })

  test('[GATE11] a denial by the state names the policy that was not asked', async () => {
    const world = await new RunWorld().begin()
    const { runId } = await world.prompt()
    await world.actor.api.self.abort(testCaller, '')
    await world.ask('read')
    expect((await decisions(world, runId ?? ''))[0]).toMatchObject({
      ...{ by: 'state', grant: null, reason: 'The turn is being aborted' },
      policy: { name: 'sandbox-default', version: 2 },
    })
  })

  test('[GATE12] who is of another organisation learns nothing of the policy, and changes nothing', async () => {
    const world = await new RunWorld().begin()
    const { gate } = world.actor.api
    await expect(gate.policy(strange)).rejects.toMatchObject({ code: 'not_found' })
    await expect(gate.setPolicy(strange, asking('read'))).rejects.toMatchObject({
      code: 'not_found',
    })
    expect((await gate.policy(testCaller)).name).toBe('sandbox-default')
  })

  test('[ATT2] a sandbox that has not said what it enforces enforces nothing', async () => {
    const world = new RunWorld()
    await world.create({ sandbox: 'local' })
    const operation = Operation.parse(operations.allow)
    const { notEnforced } = await world.actor.api.operations.plan(testCaller, operation)
    expect(notEnforced.length).toBeGreaterThan(0)
  })
})

describe('a remembered approval', () => {
  test('[APR6] is about the same real paths, in whatever order they are told', async () => {
    const world = await new RunWorld().begin({}, asking('read'))
    await world.prompt()
    const ask = (...realPaths: string[]) => world.ask('read', undefined, { realPaths })
    const first = await ask('/home/user/workspace/a', '/home/user/workspace/b')
    const remember = { scope: 'session', expiresInSeconds: 60 } as const
    await world.resolve(world.approvalId(first), 'approved', other, { remember })
    const same = await ask('/home/user/workspace/b', '/home/user/workspace/a')
    const more = await ask('/home/user/workspace/b', '/home/user/workspace/c')
    expect([same, more].map(world.answerTo)).toEqual(['allow', null])
  })

  test('[APR9] does not spare a question that needs several people, or others than who gave it', async () => {
    const world = await new RunWorld().begin({}, asking('read'))
    await world.prompt()
    const first = await world.ask('read')
    const anna = person('a')
    const remember = { scope: 'session', expiresInSeconds: 60 } as const
    await world.resolve(world.approvalId(first), 'approved', anna, { remember })
    const under = async (approval: object, groups = {}) => {
      const rule = { match: { tool: 'read' }, decision: 'ask', approval }
      await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule], groups }))
      return world.answerTo(await world.ask('read'))
    }
    expect(await under({})).toBe('allow')
    expect(await under({ quorum: 2 })).toBeNull()
    expect(await under({ group: 'g' }, { g: [anna.keyId] })).toBe('allow')
    expect(await under({ group: 'g' }, { g: [other.keyId] })).toBeNull()
    const escalate = { afterSeconds: 5, group: 'h' }
    const groups = { g: [other.keyId], h: [anna.keyId] }
    expect(await under({ group: 'g', escalate }, groups)).toBe('allow')
  })
})

describe('a question that waits for a budget', () => {
  /** One call is left, and two questions wait for more. */
  async function spent(policy = asking('todowrite')) {
    const world = await new RunWorld().begin({ budget: { toolCalls: 1 } }, policy)
    const { runId } = await world.prompt()
    expect(world.answerTo(await world.ask('read'))).toBe('allow')
    const asks = [await world.ask('read'), await world.ask('todowrite'), await world.ask('read')]
    expect(asks.map(world.answerTo)).toEqual([null, null, null])
    return { world, asks, runId: runId ?? '' }
  }
  const raise = (world: RunWorld, toolCalls: number) =>
    world.actor.api.budget.set(testCaller, { toolCalls })

  test('[BUD4] is decided in its order once there is some, and asks whom it would have asked', async () => {
    const { world, asks, runId } = await spent()
    await raise(world, 2)
    expect(asks.map(world.answerTo)).toEqual(['allow', null, null])
    expect(await world.actor.api.approvals.list(testCaller, null)).toEqual([])
    await raise(world, 4)
    expect(asks.map(world.answerTo)).toEqual(['allow', null, 'allow'])
    const [approval] = await world.actor.api.approvals.list(testCaller, null)
    expect(approval).toMatchObject({ subject: asks[1], title: 'todowrite', runId })
    await world.resolve(approval?.id ?? '')
    expect(world.answerTo(asks[1] ?? '')).toBe('allow')
    const told = (await world.events('gate.decided')).map((data) => [data['actor'], data['rule']])
    expect(told.slice(0, 3).every(([actor]) => actor === 'rule')).toBe(true)
  })

  test('[BUD4] is decided by the policy of that time: what is denied by then is denied', async () => {
    const { world, asks } = await spent()
    const rule = { match: { tool: 'read' }, decision: 'deny' }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    await raise(world, 9)
    expect(asks.map(world.answerTo)).toEqual(['deny', null, 'deny'])
  })

  test('[BUD4] is denied ten minutes after it came, each at its own time, with the budget as the rule', async () => {
    const { world, asks } = await spent()
    world.now += 1000
    const last = await world.ask('read')
    // The link may end meanwhile: what is decided is in the log.
    const denied = async () =>
      (await world.events('gate.decided'))
        .filter(({ decision }) => decision === 'deny')
        .map(({ askId }) => askId)
    await world.pass(598_999)
    expect(await denied()).toEqual([])
    await world.pass(1)
    expect(await denied()).toEqual(asks)
    expect(world.deadlines()['budget.ask']).toBe(world.now + 1000)
    await world.pass(1000)
    expect(await denied()).toEqual([...asks, last])
    expect(world.deadlines()).not.toHaveProperty('budget.ask')
    expect((await world.events('gate.decided')).at(-1)).toMatchObject({
      ...{ askId: last, decision: 'deny', rule: 'budget', actor: 'deadline', waitedMs: 600_000 },
    })
  })
})

test('[GATE4] a question that waited for the organisation while its sandbox was replaced is not decided', async () => {
  const world = await new RunWorld().begin()
  const { runId } = await world.prompt()
  let give = () => {}
  const asked = new Promise<void>((resolve) => (give = resolve))
  world.organisation.shared = {
    take: async () => {
      await asked
      const granted = { wallMs: 1e9, toolCalls: 100, tokens: 1e9, moneyMicros: 1e9 }
      return { granted, warnings: [] }
    },
    giveBack: async () => {},
  }
  world.sql.run(`update slice set granted = '{}'`)
  const waiting = world.ask('read')
  await world.settle()
  await world.actor.api.sandbox.replace(testCaller, 'x')
  give()
  await world.settle()
  expect(world.answerTo(await waiting)).toBeNull()
  expect(await decisions(world, runId ?? '')).toEqual([])
})

test('[GATE3] [GATE8] what was decided is kept with reason, actor and time, and told again with the same reason', async () => {
  const world = await new RunWorld().begin({}, asking('bash'))
  await world.prompt()
  const denied = await world.ask('read', { filePath: '/etc/passwd' })
  const asked = await world.ask('bash', { command: 'ls' })
  const bare = await world.ask('bash', null)
  expect(await world.events('gate.asked')).toMatchObject([
    {
      ...{ askId: asked, approvalId: world.approvalId(asked), tool: 'bash' },
      ...{ callId: expect.any(String), input: { command: 'ls' } },
      deadlineAt: (await world.approval(world.approvalId(asked))).deadlineAt,
    },
    { askId: bare, input: null },
  ])
  world.now += 5
  await world.resolve(world.approvalId(asked), 'approved', other, { reason: 'fine' })
  const answers = () => world.sent.filter((sent) => sent.t === 'answer')
  const before = answers()
  expect(before.map(({ reason }) => reason)).toEqual([expect.stringMatching(/./), 'fine'])
  for (const [id, tool] of [
    [denied, 'read'],
    [asked, 'bash'],
  ] as const)
    await world.askAs(id, tool)
  expect(answers().slice(before.length)).toEqual(before)
  expect(world.rowsOf('asks order by n')).toMatchObject([
    { state: 'answered', decision: 'deny', reason: before[0]?.reason, actor: 'rule' },
    { state: 'answered', reason: 'fine', actor: other.keyId, answered_at: world.now },
    { state: 'open', decision: null, reason: null, actor: null, answered_at: null },
  ])
  expect(world.rowsOf('asks')[0]).toMatchObject({ answered_at: world.now - 5 })
  await world.actor.api.self.abort(testCaller, '')
  expect((await world.events('gate.decided')).at(-1)).toMatchObject({
    ...{ askId: bare, decision: 'deny', rule: 'state', actor: 'abort' },
  })
})
