import { existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { ScriptStep } from '../../local/model/scripted-model.ts'
import type { BudgetView } from '../../src/contract/budget.ts'
import type { PolicyReplayed } from '../../src/contract/policy-replay.ts'
import type { TimelineCheck } from '../../src/contract/run.ts'
import {
  api,
  decisionsOf,
  entriesOf,
  flipByte,
  makeToolRepository,
  parkedOf,
  resolve,
  runOf,
} from './policy-kit.ts'
import { isLong } from '../support/long.ts'
import { bash, Box, lastRequest, script, until, useRealStack, verify } from './support.ts'

const stack = useRealStack('workerd')

/** Like the built-in policy, but nobody has time, and one thing is not for agents. */
const document = (releases: string) => `
name: quick
approvals: { timeoutSeconds: 2 }
rules:
  - { id: workspace, match: { category: [read, edit, shell, git] }, decision: allow }
  - { id: releases, match: { command: npm publish* }, decision: ${releases}, reason: Releases are made by the pipeline }
`

/** One session under the document above, one under the built-in policy. */
let quick: Box
let standard: Box
let repository: string
const runs = { quick: new Set<string>(), standard: new Set<string>() }

beforeAll(async () => {
  repository = makeToolRepository()
  const policy = { project: 'quick', source: document('deny') }
  expect((await api(stack(), 'PUT', '/policies', policy)).status).toBe(200)
  quick = await Box.create(stack(), { project: 'quick' })
  standard = await Box.create(stack(), {
    repository: { url: repository },
    trustProjectConfig: true,
  })
  await Promise.all([quick.ready(), standard.ready()])
}, 240_000)
afterAll(() => rmSync(repository, { recursive: true, force: true }))
// Whatever a test has left parked must not stand in the way of the next one.
afterEach(async () => {
  for (const box of [quick, standard]) if ((await box.view()).turn) await box.post('/abort')
})

const parallel = (...steps: ScriptStep[]): ScriptStep => ({
  calls: steps.flatMap(({ calls }) => calls ?? []),
})
const use = (name: string, args: Record<string, unknown> = {}): ScriptStep => ({
  calls: [{ name, args }],
})

async function prompt(box: Box, ...steps: ScriptStep[]) {
  const turn = await box.prompt(steps)
  runs[box === quick ? 'quick' : 'standard'].add(turn.runId as string)
  return turn
}

/** By tool or command: how each ended for the model. */
async function endings(box: Box, turn: { id: string }): Promise<Record<string, string>> {
  const failed = (await box.eventsOf('tool.failed')).filter(({ turnId }) => turnId === turn.id)
  const done = (await box.eventsOf('tool.completed')).filter(({ turnId }) => turnId === turn.id)
  const nameOf = ({ tool, input }: { tool: string; input: unknown }) =>
    (input as { command?: string }).command ?? tool
  return Object.fromEntries([
    ...failed.map((one) => [nameOf(one), one.error]),
    ...done.map((one) => [nameOf(one), one.output]),
  ])
}

describe('under a policy of its own', () => {
  test('[GATE2] [GATE8] [APR2] what asks, what leaves the workspace and a piped command hang nothing: refused with the reason, and the turn goes on', async () => {
    const turn = await prompt(
      quick,
      bash('mkdir build; echo kept > kept.txt'),
      parallel(
        bash('rm -rf build'),
        bash('ls | xargs rm -rf'),
        bash('cat /etc/hostname'),
        bash('npm publish'),
        use('read', { filePath: '/etc/passwd' }),
      ),
      bash('cat kept.txt'),
      { text: 'I went on.' },
    )
    expect(await quick.ended(turn)).toMatchObject({ state: 'completed', text: 'I went on.' })
    expect(await endings(quick, turn)).toMatchObject({
      'rm -rf build': expect.stringContaining('Nobody answered in time'),
      'ls | xargs rm -rf': expect.stringContaining('Nobody answered in time'),
      'cat /etc/hostname': expect.stringContaining('Outside the workspace: /etc/hostname'),
      'npm publish': expect.stringContaining('Releases are made by the pipeline'),
      read: expect.stringContaining('Outside the workspace: /etc/passwd'),
      'cat kept.txt': 'kept\n',
    })
    expect(existsSync(quick.folder('workspace/build'))).toBe(true)
    const told = JSON.stringify(
      lastRequest(stack(), (all) => JSON.stringify(all).includes('npm publish')),
    )
    expect(told).toContain('Releases are made by the pipeline')

    const view = await runOf(quick, turn.runId)
    expect(view.run).toMatchObject({ status: 'completed', outcome: 'completed' })
    expect(view.approvals).toHaveLength(2)
    for (const { state, resolution, deadlineAt } of view.approvals) {
      expect([state, resolution?.actor]).toEqual(['rejected', 'deadline'])
      expect(resolution?.at).toBeGreaterThanOrEqual(deadlineAt)
    }
    const decided = decisionsOf(view)
    expect(
      Object.fromEntries(
        decided.map((one) => [one.request.command ?? one.request.tool, [one.decision, one.rule]]),
      ),
    ).toEqual({
      'mkdir build; echo kept > kept.txt': ['allow', 'quick@1#workspace'],
      'rm -rf build': ['ask', 'quick@1#workspace'],
      'ls | xargs rm -rf': ['ask', 'quick@1#workspace'],
      'cat /etc/hostname': ['deny', 'boundary'],
      'npm publish': ['deny', 'quick@1#releases'],
      read: ['deny', 'boundary'],
      'cat kept.txt': ['allow', 'quick@1#workspace'],
    })
    for (const { policy, latencyMs, request, by } of decided) {
      expect([by, policy, request.agent]).toEqual([
        'policy',
        { name: 'quick', version: 1 },
        'build',
      ])
      expect(latencyMs).toBeGreaterThanOrEqual(0)
    }
  })

  test('[BUD1] [BUD4] a budget of two more tool calls stops at two; raised, the third runs and the run ends', async () => {
    const { json } = await quick.get('/budget')
    const { toolCalls } = (json as BudgetView).used
    const put = (limit: number) =>
      api(stack(), 'PUT', `/sessions/${quick.id}/budget`, { toolCalls: limit })
    expect((await put(toolCalls + 2)).status).toBe(200)
    const turn = await prompt(quick, ...[1, 2, 3].map((n) => bash(`echo ${n} >> counted.txt`)), {
      text: 'All three.',
    })
    await quick.seen('budget.spent')
    const third = ({ input }: { input: unknown }) => JSON.stringify(input).includes('echo 3')
    await quick.seen('tool.started', (one) => one.turnId === turn.id && third(one))
    expect((await runOf(quick, turn.runId)).run).toMatchObject({
      status: 'needs-human',
      reason: 'budget',
      waitsFor: ['budget'],
    })
    expect(Object.keys(await endings(quick, turn))).toHaveLength(2)
    expect(readFileSync(quick.folder('workspace/counted.txt'), 'utf8')).toBe('1\n2\n')
    expect((await quick.post('/prompts', { text: 'More' })).status).toBe(409)

    expect((await put(toolCalls + 10)).status).toBe(200)
    expect(await quick.ended(turn)).toMatchObject({ state: 'completed', text: 'All three.' })
    expect(readFileSync(quick.folder('workspace/counted.txt'), 'utf8')).toBe('1\n2\n3\n')
    const view = await runOf(quick, turn.runId)
    expect(view.run.status).toBe('completed')
    expect(entriesOf(view, 'budget.spent')).toHaveLength(1)
    expect(decisionsOf(view)).toHaveLength(3)
  })
})

describe('under the built-in policy', () => {
  test('[GATE2] [GATE8] [APR3] a person approves and rejects, also for a sub-agent, and the turn goes on', async () => {
    const box = standard
    const child = script([bash('rm -rf child'), { text: 'The child is done.' }])
    const turn = await prompt(
      box,
      bash('mkdir build child kept'),
      bash('rm -rf build'),
      bash('rm -rf kept'),
      use('task', { description: 'Sub', prompt: child, subagent_type: 'general' }),
      { text: 'Done.' },
    )
    const first = await box.parked()
    expect(first).toMatchObject({ kind: 'gate', asker: { kind: 'sandbox', id: '1' } })
    expect((await runOf(box, turn.runId)).run).toMatchObject({
      status: 'needs-human',
      waitsFor: [first.id],
    })
    expect((await resolve(box, first, 'approved')).status).toBe(200)
    const next = (command: string) =>
      until(`the question about ${command}`, 30_000, async () => {
        const parked = await box.parked()
        return JSON.stringify(parked.operation).includes(command) && parked
      })
    await resolve(box, await next('rm -rf kept'), 'rejected', { reason: 'It is needed' })
    await resolve(box, await next('rm -rf child'), 'approved')
    expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'Done.' })

    expect(
      ['build', 'child', 'kept'].map((name) => existsSync(box.folder(`workspace/${name}`))),
    ).toEqual([false, false, true])
    expect((await endings(box, turn))['rm -rf kept']).toContain('It is needed')
    const view = await runOf(box, turn.runId)
    expect(view.run.status).toBe('completed')
    const asked = decisionsOf(view).filter(({ decision }) => decision === 'ask')
    expect(
      asked.map(({ request, rule, policy }) => [
        request.subagent,
        request.agent,
        rule,
        policy.version,
      ]),
    ).toEqual(
      [null, null, 'general'].map((sub) => [sub, 'build', 'sandbox-default@2#workspace', 2]),
    )
    expect(decisionsOf(view).find(({ request }) => request.tool === 'task')).toMatchObject({
      decision: 'allow',
      request: { subagent: null },
    })
    expect(entriesOf(view, 'permission.approved')).toHaveLength(2)
    expect(entriesOf(view, 'permission.denied')).toMatchObject([{ reason: 'It is needed' }])
  })

  test('[APR6] what is remembered for the session asks no more; anything else does', async () => {
    const box = standard
    const turn = await prompt(box, bash('rm -rf again'), { text: 'Once.' })
    const approval = await box.parked()
    const remember = { scope: 'session', expiresInSeconds: 600 } as const
    expect((await resolve(box, approval, 'approved', { remember })).status).toBe(200)
    expect(await box.ended(turn)).toMatchObject({ state: 'completed' })
    const second = await prompt(box, bash('rm -rf again'), bash('rm -rf other'), { text: 'Twice.' })
    const other = await box.parked()
    expect(other.operation).toMatchObject({ input: { command: 'rm -rf other' } })
    await resolve(box, other, 'rejected')
    expect(await box.ended(second)).toMatchObject({ state: 'completed' })
    expect(decisionsOf(await runOf(box, second.runId))).toMatchObject([
      { by: 'grant', decision: 'allow', rule: `grant:${approval.id}`, grant: approval.id },
      { by: 'policy', decision: 'ask' },
    ])
  })

  test('[GATE9] a link that leads out of the workspace is outside, wherever it seems to be', async () => {
    symlinkSync('/etc', standard.folder('workspace/inside'))
    const turn = await prompt(
      standard,
      parallel(
        use('read', { filePath: 'inside/passwd' }),
        use('write', { filePath: 'inside/gantry-was-here', content: 'x' }),
      ),
      { text: 'Neither.' },
    )
    expect(await standard.ended(turn)).toMatchObject({ state: 'completed' })
    expect(await endings(standard, turn)).toEqual({
      read: expect.stringContaining('Outside the workspace: /etc/passwd'),
      write: expect.stringContaining('Outside the workspace: /etc/gantry-was-here'),
    })
    // Nothing is there yet: writing through the link would make it.
    const made = standard.folder('made-by-a-link')
    symlinkSync(made, standard.folder('workspace/dangling'))
    const next = await prompt(standard, use('write', { filePath: 'dangling', content: 'x' }), {
      text: 'Nor that.',
    })
    expect(await standard.ended(next)).toMatchObject({ state: 'completed' })
    expect(await endings(standard, next)).toEqual({
      write: expect.stringContaining('Outside the workspace: '),
    })
    expect(existsSync(made)).toBe(false)
  })

  test("[GATE1] [GATE2] a repository's tool, an MCP server's and the network ask; the contract's tools do not", async () => {
    const turn = await prompt(
      standard,
      verify(),
      parallel(
        use('lookup'),
        use('probe_ping'),
        use('webfetch', { url: `${stack().url}/healthz`, format: 'text' }),
      ),
      { text: 'Asked.' },
    )
    const parked = await parkedOf(standard, 3)
    expect(parked.map(({ title }) => title).toSorted()).toEqual([
      'lookup',
      'probe_ping',
      'webfetch: 127.0.0.1',
    ])
    for (const approval of parked)
      await resolve(standard, approval, approval.title === 'probe_ping' ? 'approved' : 'rejected')
    expect(await standard.ended(turn)).toMatchObject({ state: 'completed' })
    expect(await endings(standard, turn)).toMatchObject({
      lookup: expect.stringContaining('rejected'),
      webfetch: expect.stringContaining('rejected'),
      probe_ping: 'pong',
    })
    const [first] = decisionsOf(await runOf(standard, turn.runId))
    expect(first).toMatchObject({ decision: 'allow', rule: 'sandbox-default@2#contract-tools' })
    expect(await standard.eventsOf('gate.bypassed')).toEqual([])
  })
})

describe('while a question is parked', () => {
  const park = async (name: string) => {
    const turn = await prompt(standard, bash(`rm -rf ${name}; echo ran >> ${name}.txt`), {
      text: 'It ran.',
    })
    return { turn, approval: await standard.parked(), ran: () => `workspace/${name}.txt` }
  }

  test('[GATE5] [APR3] the control plane is killed: the approval is there again, counts, and the command runs once', async () => {
    const { turn, approval, ran } = await park('restarted')
    stack().worker.kill('SIGKILL')
    await stack().worker.start()
    expect(await standard.parked()).toEqual({ ...approval, secondsLeft: expect.any(Number) })
    expect(existsSync(standard.folder(ran()))).toBe(false)
    expect((await resolve(standard, approval, 'approved')).status).toBe(200)
    expect(await standard.ended(turn)).toMatchObject({ state: 'completed', text: 'It ran.' })
    expect(readFileSync(standard.folder(ran()), 'utf8')).toBe('ran\n')
    expect((await resolve(standard, approval, 'rejected')).status).toBe(409)
  })

  test.each([
    {
      what: 'OpenCode is killed',
      name: 'killed',
      act: async () => void process.kill(await standard.opencodePid(), 'SIGKILL'),
    },
    ...(isLong
      ? [
          {
            what: 'the sandbox is replaced',
            name: 'replaced',
            act: async () => void (await standard.post('/replace', { reason: 'a new one' })),
          },
        ]
      : []),
  ])(
    '[GATE4] [APR5] $what: turn interrupted, approval cancelled, a late one is refused, nothing runs',
    async ({ name, act }) => {
      const { turn, approval, ran } = await park(name)
      await act()
      expect(await standard.ended(turn)).toMatchObject({ state: 'interrupted' })
      const view = await runOf(standard, turn.runId)
      expect(view.run).toMatchObject({ status: 'failed', waitsFor: [] })
      expect(view.approvals).toMatchObject([{ id: approval.id, state: 'cancelled' }])
      expect((await resolve(standard, approval, 'approved')).status).toBe(409)
      await standard.ready()
      expect(await standard.bash('echo next')).toBe('next\n')
      expect(existsSync(standard.folder(ran()))).toBe(false)
    },
  )
})

describe('afterwards', () => {
  const replay = async (body: object, runIds: Set<string>): Promise<PolicyReplayed> => {
    const answer = await api(stack(), 'POST', '/policies/replay', { ...body, runIds: [...runIds] })
    expect(answer.status).toBe(200)
    return answer.json as PolicyReplayed
  }
  const recorded = async (box: Box, runIds: Set<string>) =>
    (await Promise.all([...runIds].map((id) => runOf(box, id)))).flatMap(decisionsOf)

  test('[POLS7] [POLS8] replayed, each policy says what it said; one rule changed, exactly its rows differ', async () => {
    for (const [box, ids, policy] of [
      [quick, runs.quick, { project: 'quick', version: 1 }],
      [standard, runs.standard, { builtin: true }],
    ] as const) {
      const decisions = await recorded(box, ids)
      const byPolicy = decisions.filter(({ by }) => by === 'policy').length
      const same = await until('the ledger has it all', 15_000, async () => {
        const result = await replay(policy, ids)
        return result.total === byPolicy && result
      })
      expect(same).toMatchObject({ same: byPolicy, changed: {}, rows: [] })
      expect(same.skipped.grant).toBe(decisions.filter(({ by }) => by === 'grant').length)
    }
    const changed = await replay({ project: 'quick', source: document('ask') }, runs.quick)
    expect(changed.changed).toEqual({ 'deny->ask': 1 })
    expect(changed.rows).toMatchObject([
      { ruleBefore: 'quick@1#releases', before: 'deny', after: 'ask', tool: 'bash' },
    ])
  })

  test('[RUN5] one byte of a stored timeline is changed: verify names the entry', async () => {
    const [runId = ''] = runs.quick
    const check = async () =>
      (await api(stack(), 'GET', `/runs/${runId}/verify`)).json as TimelineCheck
    expect(await check()).toMatchObject({
      ok: true,
      problems: [],
      head: { seq: expect.any(Number) },
    })
    await stack().worker.stop()
    flipByte(stack(), runId, 5)
    await stack().worker.start()
    const found = await check()
    expect(found.ok).toBe(false)
    expect(found.problems).toMatchObject([{ seq: 5 }])
  })
})
