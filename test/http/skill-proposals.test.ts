import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let stranger: string
/** Each of a member of its own. */
let anna: string
let bert: string
let clara: string
let skillId: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
// Each test has an organisation of its own, with a skill in version 1.
beforeEach(async () => {
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  await ok('PUT', '/v1/settings', { newKeysCount: true })
  anna = await newKey('anna', 'write')
  bert = await newKey('bert', 'write', 'approve')
  clara = await newKey('clara', 'write', 'approve')
  skillId = await newSkill()
})

async function newSkill(more: object = {}, credential = key): Promise<string> {
  const body = { name: 'review', description: 'Reviews', ...more }
  const { id } = await ok('PUT', '/v1/skills', body, credential)
  const first = { source: inline('Read it.\nSay what is wrong.'), activate: true }
  await ok('POST', `/v1/skills/${id}/versions`, first, credential)
  return id
}
const inline = (content: string) => ({ kind: 'inline', content })
const newKey = async (owner: string, ...scopes: string[]): Promise<string> =>
  (await app.call('POST', '/v1/keys', key, { name: owner, owner, scopes })).json.secret

async function ok(method: string, path: string, body?: unknown, credential = key) {
  const { status, json } = await app.call(method, path, credential, body)
  expect([path, status < 300, json?.error]).toEqual([path, true, undefined])
  return json
}
async function refusal(method: string, path: string, body?: unknown, credential = key) {
  const { status, json } = await app.call(method, path, credential, body)
  return [status, json?.error?.code, json?.error?.details?.[0]?.path]
}

const change = {
  source: inline('Read it twice.\nSay what is wrong.'),
  rationale: 'Once was not enough',
  signal: { kind: 'correction', reference: 'run 7' },
}
const propose = (more: object = {}, credential = anna) =>
  ok('POST', `/v1/skills/${skillId}/proposals`, { ...change, submit: true, ...more }, credential)
const at = (id: string) => `/v1/skill-proposals/${id}`
const state = async (id: string, credential = key) =>
  (await ok('GET', at(id), undefined, credential)).state
const vote = ({ id, hash }: { id: string; hash: string }, resolution = 'approved') =>
  [`${at(id)}/resolve`, { resolution, hash, reason: 'I looked' }] as const
const skill = async () => {
  const { currentVersion, current } = await ok('GET', `/v1/skills/${skillId}`)
  return [currentVersion, current.source.content]
}
const before = [1, 'Read it.\nSay what is wrong.']
const rows = async (table: string, column: string, id: string) =>
  (await libsql.db().all(`select 1 from ${table} where ${column} = ?`, id)).length

test('[SKILL7] what looks like a key is in no reason and no signal of a proposal', async () => {
  const token = `ghp_${'a1B2'.repeat(9)}`
  const { id, hash } = await propose({
    rationale: token,
    signal: { kind: 'failure', reference: token },
  })
  const said = { reason: `because ${token}` }
  await ok('POST', `${at(id)}/resolve`, { resolution: 'approved', hash, ...said }, bert)
  await ok('POST', `${at(id)}/apply`, said, bert)
  const { id: other } = await propose({ source: inline('More.') })
  await ok('POST', `${at(other)}/cancel`, said, anna)
  const texts = await Promise.all(
    [at(id), at(other), `/v1/skills/${skillId}/changes`].map(async (path) =>
      JSON.stringify(await ok('GET', path)),
    ),
  )
  for (const text of texts) {
    expect(text).toContain('because [secret-like:github]')
    expect(text).not.toContain(token)
  }
})

describe('[SKILL11] proposing', () => {
  test('stores target, base, text, rationale, signal and what changes; the skill stays', async () => {
    const made = await propose()
    expect(made).toEqual({
      id: expect.stringMatching(/^skp_[0-9a-z]{20}$/),
      ...{ skillId, name: 'review', project: 'default', scope: 'project' },
      ...{ state: 'submitted', baseVersion: 1, description: 'Reviews', compatibility: '' },
      source: change.source,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      ...{ rationale: 'Once was not enough', signal: change.signal },
      diff: {
        changed: ['source'],
        ...{ added: 1, removed: 1, truncated: false },
        lines: '@@ line 1 @@\n-Read it.\n+Read it twice.',
      },
      asker: { kind: 'key', id: expect.stringMatching(/^key_/) },
      ...{ quorum: 1, group: null, votes: [], resolution: null },
      ...{ application: null, createdAt: app.deps.now() },
    })
    expect(made.hash).not.toBe(made.sha256)
    expect(await skill()).toEqual(before)
    expect((await propose()).hash).toBe(made.hash)
  })

  test('the same request with its key is one proposal, also after it was applied', async () => {
    const send = () =>
      app.call(
        'POST',
        `/v1/skills/${skillId}/proposals`,
        anna,
        { ...change, submit: true },
        {
          'idempotency-key': 'once',
        },
      )
    const [first, second] = [await send(), await send()]
    expect([first.status, second.json]).toEqual([201, first.json])
    await ok('POST', ...vote(first.json), bert)
    await ok('POST', `${at(first.json.id)}/apply`, { reason: 'r' }, bert)
    expect((await send()).json).toMatchObject({ id: first.json.id, state: 'applied' })
    expect(await rows('skill_proposals', 'skill_id', skillId)).toBe(1)
  })

  test('another base, the same text, a credential and a wrong body are refused', async () => {
    const path = `/v1/skills/${skillId}/proposals`
    const tries: [object, unknown[]][] = [
      [{ ...change, baseVersion: 2 }, [409, 'wrong_state', 'baseVersion']],
      [{ ...change, source: inline(before[1] as string) }, [422, 'unprocessable', 'source']],
      [{ ...change, source: inline(`ghp_${'a1B2'.repeat(9)}`) }, [422, 'unprocessable', 'source']],
      [{ ...change, rationale: '' }, [400, 'invalid_request', 'rationale']],
      [{ ...change, signal: { kind: 'mood' } }, [400, 'invalid_request', 'signal.kind']],
    ]
    for (const [body, wanted] of tries)
      expect(await refusal('POST', path, body, anna)).toEqual(wanted)
    expect(await rows('skill_proposals', 'skill_id', skillId)).toBe(0)
  })

  test('what it does not name is as in the base, and each field that changes is shown', async () => {
    const body = { description: 'Reviews code', compatibility: 'git', source: before[1] }
    const { diff } = await propose({ ...body, source: inline(`${before[1]}\nBe kind.`) })
    expect(diff).toMatchObject({
      changed: ['description', 'compatibility', 'source'],
      added: 1,
      removed: 0,
    })
    expect(diff.lines).toBe(
      [
        ...[
          '-description: Reviews',
          '+description: Reviews code',
          '-compatibility: ',
          '+compatibility: git',
        ],
        ...['@@ line 3 @@', '+Be kind.'],
      ].join('\n'),
    )
  })

  test('a skill without a current version gets its first one by a proposal', async () => {
    skillId = (await ok('PUT', '/v1/skills', { name: 'empty', description: 'Nothing yet' })).id
    const made = await propose()
    expect(made).toMatchObject({ baseVersion: null, description: 'Nothing yet', compatibility: '' })
    expect(made.diff).toMatchObject({ added: 2, removed: 0 })
    await ok('POST', ...vote(made), bert)
    await ok('POST', `${at(made.id)}/apply`, { reason: 'r' }, bert)
    expect(await skill()).toEqual([1, change.source.content])
  })

  test('a credential in the rationale is hidden', async () => {
    const token = `ghp_${'a1B2'.repeat(9)}`
    expect((await propose({ rationale: `because ${token}` })).rationale).not.toContain(token)
  })
})

describe('[SKILL12] the life of a proposal', () => {
  const acts = {
    submit: (id: string) => app.call('POST', `${at(id)}/submit`, anna),
    async approve(id: string) {
      const { hash } = await ok('GET', at(id))
      return app.call('POST', `${at(id)}/resolve`, bert, vote({ id, hash })[1])
    },
    async reject(id: string) {
      const { hash } = await ok('GET', at(id))
      return app.call('POST', `${at(id)}/resolve`, bert, vote({ id, hash }, 'rejected')[1])
    },
    cancel: (id: string) => app.call('POST', `${at(id)}/cancel`, anna, { reason: 'no' }),
    apply: (id: string) => app.call('POST', `${at(id)}/apply`, bert, { reason: 'go' }),
  }
  type Act = keyof typeof acts
  const ways: Record<string, Act[]> = {
    draft: [],
    submitted: ['submit'],
    approved: ['submit', 'approve'],
    rejected: ['submit', 'reject'],
    cancelled: ['cancel'],
    applied: ['submit', 'approve', 'apply'],
  }
  /** What each act makes of each state; what is not here is refused and changes nothing. */
  const next: Record<string, Partial<Record<Act, string>>> = {
    draft: { submit: 'submitted', cancel: 'cancelled' },
    submitted: {
      submit: 'submitted',
      approve: 'approved',
      reject: 'rejected',
      cancel: 'cancelled',
    },
    approved: { approve: 'approved', cancel: 'cancelled', apply: 'applied' },
    rejected: { reject: 'rejected' },
    cancelled: { cancel: 'cancelled' },
    applied: { approve: 'applied', apply: 'applied' },
  }

  test.each(Object.keys(ways))('every act on one that is %s', async (from) => {
    for (const act of Object.keys(acts) as Act[]) {
      const { id } = await propose({ submit: false, rationale: `${from} ${act}` })
      for (const step of ways[from] ?? []) await acts[step](id)
      expect(await state(id)).toBe(from)
      const [current] = await skill()
      const { status } = await acts[act](id)
      const wanted = next[from]?.[act]
      expect([from, act, status, await state(id)]).toEqual([
        ...[from, act, wanted ? 200 : 409, wanted ?? from],
      ])
      const isApplied = from === 'approved' && act === 'apply'
      expect([from, act, (await skill())[0]]).toEqual([
        from,
        act,
        isApplied ? current + 1 : current,
      ])
      if (from === 'approved' || from === 'applied')
        await ok('POST', `/v1/skills/${skillId}/versions`, {
          source: inline(`${from} ${act}`),
          activate: true,
        })
    }
  })

  test('only applying changes the skill, with who and why; again changes nothing', async () => {
    const made = await propose()
    await ok('POST', ...vote(made), bert)
    expect(await skill()).toEqual(before)
    app.pass(1000)
    const apply = () => ok('POST', `${at(made.id)}/apply`, { reason: 'all agreed' }, clara)
    const applied = await apply()
    expect(applied).toMatchObject({
      state: 'applied',
      resolution: { reason: 'I looked' },
      application: { version: 2, reason: 'all agreed', at: app.deps.now() },
    })
    expect(await skill()).toEqual([2, change.source.content])
    const version = await ok('GET', `/v1/skills/${skillId}/versions/2`)
    expect(version).toMatchObject({ state: 'active', sha256: made.sha256 })
    expect(await apply()).toEqual(applied)
    expect(await rows('skill_versions', 'skill_id', skillId)).toBe(2)
    const { items } = await ok('GET', `/v1/skills/${skillId}/changes`)
    expect(items[0]).toMatchObject({ act: 'version.activated', version: 2 })
    expect(items[0].reason).toBe(`all agreed (${made.id})`)
    expect(items).toHaveLength(2)
    const back = { version: 1, reason: 'worse' }
    await ok('POST', `/v1/skills/${skillId}/rollback`, back, bert)
    expect(await apply()).toEqual(applied)
    expect(await skill()).toEqual(before)
  })

  test('if its base is no longer current it cannot be applied, and says so', async () => {
    const [first, second] = [await propose(), await propose({ source: inline('Other.') })]
    for (const one of [first, second]) await ok('POST', ...vote(one), bert)
    await ok('POST', `${at(first.id)}/apply`, { reason: 'r' }, bert)
    const late = await app.call('POST', `${at(second.id)}/apply`, bert, { reason: 'r' })
    expect([late.status, late.json.error.code]).toEqual([409, 'wrong_state'])
    expect(late.json.error.message).toContain('improves version 1, and the current one is 2')
    expect([await state(second.id), await skill()]).toEqual([
      'approved',
      [2, change.source.content],
    ])
  })

  test('at once: of two for one base, one is applied; of one applied ten times, one version', async () => {
    const [first, second] = [await propose(), await propose({ source: inline('Other.') })]
    for (const one of [first, second]) await ok('POST', ...vote(one), bert)
    const ids = Array.from({ length: 10 }, (_, n) => (n % 2 ? first.id : second.id))
    const body = { reason: 'r' }
    const answers = await Promise.all(
      ids.map((id) => app.call('POST', `${at(id)}/apply`, bert, body)),
    )
    const done = answers.filter(({ status }) => status === 200)
    expect(new Set(done.map(({ json }) => json.id)).size).toBe(1)
    expect(await rows('skill_versions', 'skill_id', skillId)).toBe(2)
  })
})

describe('[SKILL13] who decides', () => {
  test('whoever looked at something else is refused, and so is a key without the scope', async () => {
    const made = await propose()
    const [path, body] = vote(made)
    const other = { ...body, hash: made.sha256 }
    expect(await refusal('POST', path, other, bert)).toEqual([409, 'wrong_state', 'hash'])
    expect(await refusal('POST', path, body, anna)).toEqual([403, 'forbidden', undefined])
    expect(await refusal('POST', `${at(made.id)}/apply`, { reason: 'r' }, anna)).toEqual([
      ...[403, 'forbidden', undefined],
    ])
    expect(await state(made.id)).toBe('submitted')
  })

  test('who proposed it cannot approve it, with no key, but may reject and cancel it', async () => {
    const made = await propose({}, bert)
    const second = await newKey('bert', 'approve')
    for (const own of [bert, second])
      expect(await refusal('POST', ...vote(made), own)).toEqual([403, 'forbidden', undefined])
    await ok('POST', ...vote(made, 'rejected'), second)
    const other = await propose({}, bert)
    expect(other.resolution).toBe(null)
    const ended = await ok('POST', `${at(other.id)}/cancel`, { reason: 'my mistake' }, bert)
    expect(ended.resolution).toMatchObject({ reason: 'my mistake' })
    expect((await ok('GET', at(made.id))).resolution).toMatchObject({ reason: 'I looked' })
  })

  test('somebody else’s is cancelled by who may approve alone', async () => {
    const made = await propose({}, bert)
    const cancel = `${at(made.id)}/cancel`
    expect(await refusal('POST', cancel, { reason: 'r' }, anna)).toEqual([
      ...[403, 'forbidden', undefined],
    ])
    await ok('POST', cancel, { reason: 'r' }, clara)
  })

  test('the quorum of the project’s policy counts members; one rejection is enough', async () => {
    const source = 'name: careful\napprovals: { quorum: 2 }\nrules: []\n'
    await ok('PUT', '/v1/policies', { source, project: 'default' })
    const made = await propose()
    expect(made.quorum).toBe(2)
    expect((await ok('POST', ...vote(made), bert)).state).toBe('submitted')
    const second = await newKey('bert', 'approve')
    for (const again of [bert, second])
      expect((await ok('POST', ...vote(made), again)).state).toBe('submitted')
    const approved = await ok('POST', ...vote(made), clara)
    expect([approved.state, approved.votes.length]).toEqual(['approved', 2])
    const other = await propose({ source: inline('Other.') })
    await ok('POST', ...vote(other), bert)
    expect((await ok('POST', ...vote(other, 'rejected'), clara)).state).toBe('rejected')
    expect(await refusal('POST', ...vote(other), bert)).toEqual([409, 'wrong_state', 'state'])
  })

  test('a new key counts as its maker’s: nobody approves alone through members of their own', async () => {
    await ok('PUT', '/v1/settings', { newKeysCount: false })
    const source = 'name: careful\napprovals: { quorum: 2 }\nrules: []\n'
    await ok('PUT', '/v1/policies', { source, project: 'default' })
    const made = await propose({}, key)
    const [one, two] = [await newKey('one', 'approve'), await newKey('two', 'approve')]
    expect(await refusal('POST', ...vote(made), one)).toEqual([403, 'forbidden', undefined])
    const theirs = await propose({}, await newKey('three', 'write'))
    expect(await refusal('POST', ...vote(theirs), key)).toEqual([403, 'forbidden', undefined])
    app.pass(86_400_000)
    const old = await propose({ source: inline('Other.') }, anna)
    expect((await ok('POST', ...vote(old), one)).votes).toHaveLength(1)
    expect((await ok('POST', ...vote(old), two)).state).toBe('approved')
  })

  test('a group of the policy: only its keys resolve', async () => {
    const body = { name: 'lead', owner: 'lead', scopes: ['approve'] }
    const lead = (await app.call('POST', '/v1/keys', key, body)).json
    const source = `name: led\ngroups: { leads: [${lead.id}] }\napprovals: { group: leads }\nrules: []\n`
    await ok('PUT', '/v1/policies', { source, project: 'default' })
    const made = await propose()
    expect(made.group).toEqual([lead.id])
    for (const resolution of ['approved', 'rejected'])
      expect(await refusal('POST', ...vote(made, resolution), bert)).toEqual([
        ...[403, 'forbidden', undefined],
      ])
    expect((await ok('POST', ...vote(made), lead.secret)).state).toBe('approved')
  })

  test('a personal skill’s are its member’s own to approve and apply, and nobody else sees them', async () => {
    skillId = await newSkill({ scope: 'personal' }, bert)
    const made = await propose({}, bert)
    for (const other of [clara, key])
      expect(await refusal('GET', at(made.id), undefined, other)).toEqual([
        ...[404, 'not_found', undefined],
      ])
    await ok('POST', ...vote(made), bert)
    await ok('POST', `${at(made.id)}/apply`, { reason: 'r' }, bert)
    expect((await ok('GET', `/v1/skills/${skillId}`, undefined, bert)).currentVersion).toBe(2)
  })
})

test('[SKILL6] [SKILL11] proposals are listed newest first, by cursor and filter, to those who see the skill', async () => {
  const made: string[] = []
  for (const rationale of ['one', 'two', 'three']) {
    made.unshift((await propose({ rationale, submit: rationale === 'two' })).id)
    app.pass(1000)
  }
  type Item = { id: string }
  const seen = async (query = '', credential = key) =>
    (await ok('GET', `/v1/skill-proposals${query}`, undefined, credential)).items.map(
      ({ id }: Item) => id,
    )
  expect(await seen()).toEqual(made)
  expect(await seen('?state=submitted')).toEqual([made[1]])
  expect(await seen(`?skillId=${skillId}`)).toEqual(made)
  expect(await seen(`?skillId=skl_${'0'.repeat(20)}`)).toEqual([])
  expect(await seen('?project=shop')).toEqual([])
  expect(await seen('', stranger)).toEqual([])
  const first = await ok('GET', '/v1/skill-proposals?limit=2')
  expect(await seen(`?limit=2&cursor=${first.nextCursor}`)).toEqual([made[2]])
  const limits = { projects: ['shop'] }
  const body = { name: 'shop', owner: 'shop', scopes: ['write', 'approve'], limits }
  const shop = (await app.call('POST', '/v1/keys', key, body)).json.secret
  expect(await seen('', shop)).toEqual([])
  const own = { ...body, name: 'own', owner: 'own', limits: { projects: ['default'] } }
  expect(await seen('', (await app.call('POST', '/v1/keys', key, own)).json.secret)).toEqual(made)
  for (const other of [shop, stranger])
    expect(await refusal('GET', at(made[0]!), undefined, other)).toEqual([
      ...[404, 'not_found', undefined],
    ])
})
