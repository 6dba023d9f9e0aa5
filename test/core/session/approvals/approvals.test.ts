import { describe, expect, test } from 'vitest'
import type { ApprovalState } from '../../../../src/contract/approval.ts'
import { operations, other, person, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const refused = (code: string) => ({ code })
const [anna, ben, cleo] = [person('a'), person('b'), person('c')] as const
const sameAnna = { ...person('d'), owner: anna.owner }
const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }

/** A turn with `bash` parked, under these terms. */
async function parked(approval: Record<string, unknown> = {}, groups = {}) {
  const rule = { match: { tool: 'bash' }, decision: 'ask', approval }
  const world = await new RunWorld().begin({}, policyOf({ rules: [rule], groups }))
  const turn = await world.prompt()
  const ask = await world.ask('bash')
  return { world, turn, ask, id: world.approvalId(ask), runId: turn.runId ?? '' }
}
type Parked = Awaited<ReturnType<typeof parked>>

describe('[APR1] [R1-34] reading', () => {
  test('an approval says who asks for what, by which rule, and until when', async () => {
    const { world, id, ask, runId } = await parked({ timeoutSeconds: 90 })
    const approval = await world.approval(id)
    expect(approval).toMatchObject({
      runId,
      kind: 'gate',
      state: 'pending',
      asker: { kind: 'sandbox', id: '1', owner: null },
      subject: ask,
      title: 'bash: ls',
      operation: { tool: 'bash', input: { command: 'ls' } },
      rule: 'p@1#0',
      policy: { name: 'p', version: 1 },
      group: null,
      quorum: 1,
      votes: [],
      resumable: false,
      deadlineAt: world.now + 90_000,
      resolution: null,
    })
    const decision = (await world.timeline(runId)).find(({ seq }) => seq === approval.decisionSeq)
    expect(decision).toMatchObject({
      kind: 'permission-decision',
      data: { decision: 'ask', askId: ask },
    })
    expect(await world.events('approval.requested')).toMatchObject([{ approvalId: id, runId }])
  })

  test('[APR11] it shows what would be done: command, path, change, arguments, risks, and by whom', async () => {
    const world = await new RunWorld().begin({ title: 'Shop', project: 'shop' })
    const { runId } = await world.prompt('Clean up')
    const detailsOf = async (tool: string, input: object) => {
      const rule = { match: { tool }, decision: 'ask' }
      await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
      return world.approval(world.approvalId(await world.ask(tool, input)))
    }
    const shell = await detailsOf('bash', { command: 'rm -rf build', workdir: 'packages/a' })
    expect(shell).toMatchObject({
      title: 'bash: rm -rf build',
      intent: 'Clean up',
      sessionTitle: 'Shop',
      project: 'shop',
      details: {
        category: 'shell',
        risks: ['destructive'],
        tool: 'bash',
        command: 'rm -rf build',
        cwd: '/home/user/workspace/packages/a',
        patch: null,
        truncated: false,
      },
    })
    expect(shell.runId).toBe(runId)
    const file = { filePath: 'src/a.ts' }
    const edit = await detailsOf('edit', { ...file, oldString: 'a\nb', newString: 'c' })
    expect(edit.details).toMatchObject({
      paths: ['/home/user/workspace/src/a.ts'],
      patch: '-a\n-b\n+c',
      arguments: null,
    })
    const write = await detailsOf('write', { ...file, content: 'x\ny' })
    expect(write.details.patch).toBe('+x\n+y')
    const patchText = '*** Begin Patch\n*** Add File: b.ts\n+b\n*** End Patch'
    expect((await detailsOf('apply_patch', { patchText })).details.patch).toBe(patchText)
    const fetch = await detailsOf('webfetch', { url: 'https://example.com/a?b=1' })
    expect(fetch.details).toMatchObject({
      hosts: ['example.com'],
      arguments: '{"url":"https://example.com/a?b=1"}',
    })
    expect((await detailsOf('lookup', { key: [1] })).details.arguments).toBe('{"key":[1]}')
  })

  test('[APR11] what is long is cut and says so; the operation has all of it', async () => {
    const world = await new RunWorld().begin()
    await world.prompt()
    const command = `rm -rf ${'a '.repeat(4000)}`
    const approval = await world.approval(world.approvalId(await world.ask('bash', { command })))
    expect(approval.details.truncated).toBe(true)
    expect(approval.details.command).toHaveLength(4000)
    expect(approval.title).toHaveLength(160)
    expect(approval.operation).toEqual({ tool: 'bash', input: { command } })
  })

  test('they are listed per run and per session, and nobody else sees them', async () => {
    const { world, id, runId } = await parked()
    const { id: second } = await world.createRun()
    const { approvalId } = await world.execute(second, { category: 'memory', operation: 'other' })
    const ids = async (run: string | null) =>
      (await world.actor.api.approvals.list(testCaller, run)).map((approval) => approval.id)
    expect(await ids(runId)).toEqual([id])
    expect(await ids(second)).toEqual([approvalId])
    expect(await ids(null)).toEqual([approvalId, id])
    await expect(ids(runId.replace(/.{8}$/, 'zzzzzzzz'))).rejects.toMatchObject(
      refused('not_found'),
    )
    for (const act of [
      () => world.actor.api.approvals.list(strange, null),
      () => world.actor.api.approvals.get(strange, id),
      () => world.resolve(id, 'approved', strange),
    ])
      await expect(act()).rejects.toMatchObject(refused('not_found'))
  })
})

const rows: [state: ApprovalState, event: keyof typeof events, becomes: ApprovalState | null][] = [
  ['pending', 'vote', 'pending'],
  ['pending', 'approve', 'approved'],
  ['pending', 'reject', 'rejected'],
  ['pending', 'cancel', 'cancelled'],
  ['pending', 'deadline', 'rejected'],
  ['pending', 'escalate', 'pending'],
  ['pending', 'end', 'cancelled'],
  ...(['approved', 'rejected', 'cancelled'] as const).flatMap((state) =>
    (['vote', 'approve', 'reject', 'cancel', 'deadline', 'escalate', 'end'] as const).map(
      (event): (typeof rows)[number] => [state, event, null],
    ),
  ),
]
const isRefused = (act: Promise<unknown>) =>
  expect(act).rejects.toMatchObject(refused('wrong_state'))
/** What happens to it: one person of two, both, a no, and so on. */
const events = {
  vote: ({ world, id }: Parked) => world.resolve(id, 'approved', anna),
  approve: async ({ world, id }: Parked) => {
    await world.resolve(id, 'approved', anna)
    await world.resolve(id, 'approved', ben)
  },
  reject: ({ world, id }: Parked) => world.resolve(id, 'rejected', anna),
  cancel: ({ world, id }: Parked) => world.resolve(id, 'cancelled', anna),
  deadline: ({ world }: Parked) => world.pass(60_000),
  escalate: ({ world }: Parked) => world.pass(30_000),
  end: ({ world, turn }: Parked) => world.endTurn(turn),
}
const byPeople: readonly string[] = ['vote', 'approve', 'reject', 'cancel']
const reach = { approved: 'approve', rejected: 'reject', cancelled: 'cancel' } as const

describe('[APR2] [R1-35] every state x event', () => {
  const terms = { quorum: 2, timeoutSeconds: 60, escalate: { afterSeconds: 30, group: 'g' } }
  test.each(rows)('%s + %s: %s', async (state, event, becomes) => {
    const scene = await parked(terms, { g: [cleo.keyId] })
    if (state !== 'pending') await events[reach[state]](scene)
    const before = await scene.world.approval(scene.id)
    if (becomes === null && byPeople.includes(event)) await isRefused(events[event](scene))
    else await events[event](scene)
    const after = await scene.world.approval(scene.id)
    expect(after.state).toBe(becomes ?? state)
    if (becomes === null) expect(after).toEqual(before)
    const resolved = await scene.world.events('approval.resolved')
    expect(resolved).toHaveLength(after.state === 'pending' ? 0 : 1)
    expect((await scene.world.verify(scene.runId)).ok).toBe(true)
  })
})

describe('[APR3] a resolution has actor, reason and time, and reaches the parked call', () => {
  test.each([
    ['approved', 'allow', 'permission.approved'],
    ['rejected', 'deny', 'permission.denied'],
    ['cancelled', 'deny', 'permission.denied'],
  ] as const)('%s: %s', async (resolution, answer, kind) => {
    const { world, id, ask, runId } = await parked()
    world.now += 500
    const approval = await world.resolve(id, resolution, anna, { reason: 'since' })
    expect(approval).toMatchObject({
      state: resolution,
      resolution: { actor: anna.keyId, owner: anna.owner, reason: 'since', at: world.now },
    })
    expect(world.answerTo(ask)).toBe(answer)
    expect(await world.entries(runId, kind)).toMatchObject([
      { approvalId: id, actor: anna.keyId, owner: anna.owner, reason: 'since' },
    ])
    expect((await world.run(runId)).status).toBe('running')
    await world.settle()
    const projected = world.ledger.projected<{ id: string }>('approval', (row) => row.id)
    expect(projected).toMatchObject([{ id, state: resolution, actor: anna.keyId }])
  })

  test('the deadline rejects, and the parked call is told', async () => {
    const { world, id, ask } = await parked({ timeoutSeconds: 30 })
    await world.pass(29_999)
    expect(world.answerTo(ask)).toBeNull()
    await world.pass(1)
    expect(world.answerTo(ask)).toBe('deny')
    expect(await world.approval(id)).toMatchObject({
      state: 'rejected',
      resolution: { actor: 'deadline', owner: null, reason: 'Nobody answered in time' },
    })
    expect(world.deadlines()).not.toHaveProperty('approval')
  })

  test('it survives a restart, as does its deadline', async () => {
    const { world, id, ask } = await parked({ timeoutSeconds: 30 })
    world.restart()
    await world.pass(30_000)
    expect((await world.approval(id)).state).toBe('rejected')
    await world.meet()
    await world.askAs(ask, 'bash')
    expect(world.answerTo(ask)).toBe('deny')
  })
})

describe('[APR4] who may resolve', () => {
  test('[R1-35] whoever asked for an operation does not approve it, with no key of theirs; they may take it back', async () => {
    const world = await new RunWorld().begin()
    const { id } = await world.createRun()
    const asker = anna
    const { approvalId } = await world.execute(id, operations.ask, { by: asker })
    // A new key of hers that another member has made, and that counts as that member's.
    const throughBen = { ...sameAnna, countsAs: { memberId: ben.memberId, owner: ben.owner } }
    for (const by of [asker, sameAnna, throughBen, { ...ben, keyId: asker.keyId }])
      await expect(world.resolve(approvalId ?? '', 'approved', by)).rejects.toMatchObject(
        refused('forbidden'),
      )
    expect((await world.approval(approvalId ?? '')).votes).toEqual([])
    await world.resolve(approvalId ?? '', 'cancelled', sameAnna)
    const again = await world.execute(id, operations.ask, { by: asker })
    expect(await world.resolve(again.approvalId ?? '', 'approved', ben)).toMatchObject({
      state: 'approved',
    })
  })

  test('they may take it back though they are not in its group', async () => {
    const rule = { match: { category: 'shell' }, decision: 'ask', approval: { group: 'g' } }
    const policy = policyOf({ rules: [rule], groups: { g: [ben.keyId] } })
    const world = await new RunWorld().begin({}, policy)
    const { id } = await world.createRun()
    const { approvalId } = await world.execute(id, operations.ask, { by: anna })
    const act = (resolution: 'rejected' | 'cancelled') =>
      world.resolve(approvalId ?? '', resolution, anna)
    await expect(act('rejected')).rejects.toMatchObject(refused('forbidden'))
    expect(await act('cancelled')).toMatchObject({ state: 'cancelled' })
  })

  test("the newcomer's one key approves what the sandbox asks", async () => {
    const { world, id, ask } = await parked()
    await world.resolve(id, 'approved', testCaller)
    expect(world.answerTo(ask)).toBe('allow')
  })

  test('only keys of the group, if there is one; a group that is not there has nobody', async () => {
    const { world, id } = await parked({ group: 'g' }, { g: [ben.keyId] })
    for (const resolution of ['approved', 'rejected', 'cancelled'] as const)
      await expect(world.resolve(id, resolution, anna)).rejects.toMatchObject(refused('forbidden'))
    expect(await world.resolve(id, 'approved', ben)).toMatchObject({ state: 'approved' })
    const empty = await parked({ group: 'nobody', timeoutSeconds: 5 })
    await expect(empty.world.resolve(empty.id, 'approved', ben)).rejects.toMatchObject(
      refused('forbidden'),
    )
    await empty.world.pass(5000)
    expect(empty.world.answerTo(empty.ask)).toBe('deny')
  })

  test('a group of members: a new key has the place of whoever it counts as, and not its own', async () => {
    const through = { ...cleo, countsAs: { memberId: ben.memberId, owner: ben.owner } }
    const ofBen = await parked({ group: 'g' }, { g: [ben.memberId] })
    expect(await ofBen.world.resolve(ofBen.id, 'approved', through)).toMatchObject({
      state: 'approved',
    })
    const ofCleo = await parked({ group: 'g' }, { g: [cleo.memberId] })
    await expect(ofCleo.world.resolve(ofCleo.id, 'approved', through)).rejects.toMatchObject(
      refused('forbidden'),
    )
    expect(await ofCleo.world.resolve(ofCleo.id, 'approved', cleo)).toMatchObject({
      state: 'approved',
    })
  })

  test('a second group may as well from its time on, and is told', async () => {
    const terms = { group: 'g', escalate: { afterSeconds: 20, group: 'h' } }
    const { world, id, runId } = await parked(terms, { g: [ben.keyId], h: [cleo.keyId] })
    await expect(world.resolve(id, 'approved', cleo)).rejects.toMatchObject(refused('forbidden'))
    await world.pass(20_000)
    expect(await world.events('approval.requested')).toHaveLength(2)
    expect((await world.entries(runId, 'permission.requested')).at(-1)).toMatchObject({
      escalated: true,
    })
    expect(world.deadlines()['approval']).toBe((await world.approval(id)).deadlineAt)
    expect(await world.resolve(id, 'approved', cleo)).toMatchObject({ state: 'approved' })
  })

  test('a quorum counts people, not keys, and the record names them', async () => {
    const { world, id, ask, runId } = await parked({ quorum: 2 })
    for (const by of [anna, sameAnna, anna])
      expect(await world.resolve(id, 'approved', by)).toMatchObject({ state: 'pending' })
    expect((await world.approval(id)).votes).toMatchObject([{ keyId: anna.keyId }])
    expect(world.answerTo(ask)).toBeNull()
    expect((await world.run(runId)).status).toBe('needs-human')
    world.restart()
    expect(await world.resolve(id, 'approved', ben)).toMatchObject({ state: 'approved' })
    expect(await world.entries(runId, 'permission.approved')).toMatchObject([
      { votes: [{ owner: anna.owner }, { owner: ben.owner }] },
    ])
  })

  test('one no is enough, whatever the quorum', async () => {
    const { world, id, ask } = await parked({ quorum: 3 })
    await world.resolve(id, 'approved', anna)
    await world.resolve(id, 'rejected', ben)
    expect(world.answerTo(ask)).toBe('deny')
  })

  test('what was seen must be what is asked', async () => {
    const { world, id } = await parked()
    const { operationHash } = await world.approval(id)
    const wrong = operationHash.replace(/^./, (c) => (c === '0' ? '1' : '0'))
    await expect(
      world.resolve(id, 'approved', anna, { operationHash: wrong }),
    ).rejects.toMatchObject(refused('wrong_state'))
    expect(await world.approval(id)).toMatchObject({ state: 'pending', votes: [] })
    await world.resolve(id, 'approved', anna, { operationHash })
  })
})

test('[APR5] abort, close, replacement, loss and the end of turn or run cancel first; a late answer is inert', async () => {
  const ends: [string, (scene: Parked) => Promise<unknown>][] = [
    ['abort', ({ world }) => world.actor.api.self.abort(testCaller, '')],
    ['close', ({ world }) => world.actor.api.self.close(testCaller, 'x')],
    ['replace', ({ world }) => world.actor.api.sandbox.replace(testCaller, 'x')],
    ['sandbox-lost', ({ world }) => world.receive({ t: 'failed', reason: 'x' })],
    ['turn-end', ({ world, turn }) => world.endTurn(turn)],
    ['run-end', ({ world, runId }) => world.finish(runId, 'failed')],
  ]
  for (const [actor, end] of ends) {
    const scene = await parked()
    await end(scene)
    expect(scene.world.answerTo(scene.ask), actor).toBe('deny')
    expect(await scene.world.approval(scene.id)).toMatchObject({
      state: 'cancelled',
      resolution: { actor },
    })
    await isRefused(scene.world.resolve(scene.id, 'approved', other))
    expect(scene.world.sent.filter(({ t }) => t === 'answer')).toHaveLength(1)
    expect(scene.world.deadlines()).not.toHaveProperty('approval')
  }
})
