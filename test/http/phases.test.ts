import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { Phase } from '../../src/contract/phase.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let admin: string
let key: string
let reviewer: string
let stranger: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  await app.call('PUT', '/v1/settings', admin, { newKeysCount: true })
  key = await keyOf('writer')
  reviewer = await keyOf('reviewer')
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
const keyOf = async (owner: string, limits?: object) => {
  const body = { name: 'k', owner, scopes: ['write', 'approve'], limits }
  return (await app.call('POST', '/v1/keys', admin, body)).json.secret as string
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const at = (change: string, phase: string, rest = '') =>
  `/v1/changes/${change}/phases/${phase}${rest}`
const save = (change: string, phase: string, content: string, more = {}, credential = key) =>
  app.call('PUT', at(change, phase), credential, { content, ...more })
const get = async (path: string, credential = key) => (await app.call('GET', path, credential)).json
const outcome = async (call: ReturnType<TestApp['call']>) => {
  const { status, json } = await call
  return [status, json?.error?.code]
}
/** Later than what was saved before. */
const tick = () => app.live(1000)

describe('a change', () => {
  test('[SDD1] tells its workflow before anything is saved', async () => {
    const { change, phases } = await get('/v1/changes/new-one/workflow')
    expect(change).toBe('new-one')
    expect(phases.map(({ phase }: { phase: string }) => phase)).toEqual(Phase.options)
    expect(phases[3]).toEqual({
      phase: 'design',
      topicKey: 'sdd/new-one/design',
      requires: ['proposal', 'spec'],
    })
  })

  test('[SDD2] [SDD3] goes from phase to phase as artifacts are saved, and by nothing else', async () => {
    const next = async () => (await get('/v1/changes/walk')).next
    const readiness = (phase: string) => get(at('walk', phase, '/readiness'))
    for (const [index, phase] of Phase.options.entries()) {
      expect(await next()).toBe(phase)
      expect(await readiness(phase)).toMatchObject({ ready: true, present: false, missing: [] })
      for (const later of Phase.options.slice(index + 2)) {
        const answer = await readiness(later)
        expect([later, answer.ready]).toEqual([later, false])
        expect(answer.missing.length).toBeGreaterThan(0)
        expect(answer.hint).toContain(`save ${answer.missing[0]} first`)
      }
      expect((await save('walk', phase, phase)).status).toBe(200)
      expect(await readiness(phase)).toMatchObject({ ready: true, present: true })
    }
    const status = await get('/v1/changes/walk')
    expect([status.next, status.missing]).toEqual([null, []])
  })

  test('[SDD3] with only tasks saved apply-progress is ready and explore is next', async () => {
    await save('odd', 'tasks', 'do it')
    expect((await get(at('odd', 'apply-progress', '/readiness'))).ready).toBe(true)
    const status = await get('/v1/changes/odd')
    expect([status.present, status.next]).toEqual([['tasks'], 'explore'])
    expect(status.missing).not.toContain('tasks')
  })

  test('[SDD5] [SDD6] is listed by name with what it has, page by page, for its project and organisation alone', async () => {
    for (const change of ['b2', 'a1', 'c3'])
      await save(change, 'explore', 'x', { project: 'listed' })
    await save('a1', 'proposal', 'x', { project: 'listed' })
    await save('z9', 'explore', 'x', { project: 'listed' }, stranger)
    const first = await get('/v1/changes?project=listed&limit=2')
    expect(first.items).toEqual([
      expect.objectContaining({ change: 'a1', present: ['explore', 'proposal'], next: 'spec' }),
      expect.objectContaining({ change: 'b2', present: ['explore'], next: 'proposal' }),
    ])
    const second = await get(`/v1/changes?project=listed&cursor=${first.nextCursor}`)
    expect(second.items.map(({ change }: { change: string }) => change)).toEqual(['c3'])
    expect(second.nextCursor).toBe(null)
    expect(await outcome(app.call('GET', '/v1/changes?cursor=%25', key))).toEqual([
      400,
      'invalid_request',
    ])
  })
})

describe('an artifact', () => {
  test.each(['', ' ', '\n\t '])('[SDD4] without content (%j) is refused', async (content) => {
    const { status, json } = await save('empty', 'explore', content)
    expect([status, json.error.code]).toEqual([400, 'invalid_request'])
    expect(json.error.details[0]).toMatchObject({ path: 'content' })
    expect((await get('/v1/changes/empty')).present).toEqual([])
  })

  test.each(['apply', 'Explore', 'explore ', '__proto__', 'toString'])(
    '[SDD4] of the unknown phase %j is refused, and the known ones are named',
    async (phase) => {
      const { status, json } = await save('unknown', encodeURIComponent(phase), 'x')
      expect([status, json.error.code]).toEqual([400, 'invalid_request'])
      expect(json.error.details[0].path).toBe('phase')
      expect(json.error.message).toContain('apply-progress')
      const read = app.call('GET', at('unknown', encodeURIComponent(phase), '/readiness'), key)
      expect(await outcome(read)).toEqual([400, 'invalid_request'])
    },
  )

  test.each(['Upper', 'a/b', '', '-x', 'a'.repeat(101)])(
    '[SDD4] of a change that is no name (%j) is refused',
    async (change) => {
      const { status } = await save(encodeURIComponent(change), 'explore', 'x')
      expect([400, 404]).toContain(status)
    },
  )

  test('[SDD5] is stored and read whole, byte for byte', async () => {
    const content = `${'# Größe 😀\r\n'.repeat(50_000)}end `
    const saved = (await save('whole', 'design', content)).json
    expect(saved).toMatchObject({
      topicKey: 'sdd/whole/design',
      revision: 1,
      sha256: sha256(content),
      bytes: Buffer.byteLength(content),
    })
    const read = await get(at('whole', 'design'))
    expect(read.content === content).toBe(true)
    expect(read).toMatchObject({ isNewest: true, approvals: [], sha256: sha256(content) })
    const tooLong = await save('whole', 'spec', 'x'.repeat(1_000_001))
    expect([tooLong.status, tooLong.json.error.details?.[0]?.path]).toEqual([400, 'content'])
  })

  test('[SDD5] is listed in the order of the phases, whatever the order of saving', async () => {
    for (const phase of ['verify', 'explore', 'tasks', 'proposal'])
      await save('listed', phase, phase)
    const { artifacts } = await get('/v1/changes/listed')
    expect(artifacts.map(({ phase }: { phase: string }) => phase)).toEqual([
      ...['explore', 'proposal', 'tasks', 'verify'],
    ])
  })

  test('[SDD6] is of one organisation, one project and one change', async () => {
    await save('mine', 'explore', 'here', { project: 'web' })
    for (const [path, credential] of [
      [`${at('mine', 'explore')}?project=web`, stranger],
      [`${at('mine', 'explore')}?project=api`, key],
      [at('mine', 'explore'), key],
      [`${at('other', 'explore')}?project=web`, key],
    ] as const)
      expect([path, await outcome(app.call('GET', path, credential))]).toEqual([
        path,
        [404, 'not_found'],
      ])
    await save('mine', 'explore', 'theirs', { project: 'web' }, stranger)
    const read = await get(`${at('mine', 'explore')}?project=web`)
    expect([read.content, read.revision]).toEqual(['here', 1])
    const status = await get('/v1/changes/mine?project=api')
    expect([status.present, status.next]).toEqual([[], 'explore'])
  })

  test('[SDD6] a key of other projects is refused, also to import', async () => {
    const limited = await keyOf('limited', { projects: ['api'] })
    const web = { project: 'web' }
    const refused = [403, 'forbidden']
    expect(await outcome(save('limits', 'explore', 'x', web, limited))).toEqual(refused)
    const path = '/v1/changes/limits?project=web'
    expect(await outcome(app.call('GET', path, limited))).toEqual(refused)
    const artifacts = [{ change: 'limits', phase: 'explore', content: 'x' }]
    const imported = app.call('POST', '/v1/changes/import', limited, { ...web, artifacts })
    expect(await outcome(imported)).toEqual(refused)
    expect((await save('limits', 'explore', 'x', { project: 'api' }, limited)).status).toBe(200)
  })
})

describe('revisions', () => {
  test('[SDD7] each save is the next one, the same content is the same one, and all can be read', async () => {
    const texts = ['one', 'two', 'two', 'three', 'one']
    const revisions: number[] = []
    for (const text of texts) revisions.push((await save('rev', 'spec', text)).json.revision)
    expect(revisions).toEqual([1, 2, 2, 3, 4])
    expect((await get(`${at('rev', 'spec')}?revision=2`)).content).toBe('two')
    expect((await get(`${at('rev', 'spec')}?revision=2`)).isNewest).toBe(false)
    expect((await get(at('rev', 'spec'))).content).toBe('one')
    expect(await outcome(app.call('GET', `${at('rev', 'spec')}?revision=9`, key))).toEqual([
      404,
      'not_found',
    ])
    const first = await get(`${at('rev', 'spec', '/revisions')}?limit=3`)
    const second = await get(`${at('rev', 'spec', '/revisions')}?cursor=${first.nextCursor}`)
    const listed = [...first.items, ...second.items]
    expect(listed.map(({ revision }: { revision: number }) => revision)).toEqual([4, 3, 2, 1])
    expect(listed.map((one: { sha256: string }) => one.sha256)).toEqual(
      ['one', 'three', 'two', 'one'].map(sha256),
    )
    expect(second.nextCursor).toBe(null)
  })

  test('[SDD7] of saves at once each is a revision, and none is lost', async () => {
    const texts = Array.from({ length: 12 }, (_, n) => `text ${n}`)
    const saved = await Promise.all(texts.map((text) => save('race', 'spec', text)))
    expect(saved.map(({ status }) => status)).toEqual(texts.map(() => 200))
    const { items } = await get(`${at('race', 'spec', '/revisions')}?limit=50`)
    expect(items.map((one: { sha256: string }) => one.sha256).toSorted()).toEqual(
      texts.map(sha256).toSorted(),
    )
    expect(items[0].revision).toBe(12)
  })

  test('[SDD7] of two who expect the same revision one is refused, and hears which is the newest', async () => {
    await save('expect', 'spec', 'first')
    const answers = await Promise.all(
      ['a', 'b'].map((text) => save('expect', 'spec', text, { expectedRevision: 1 })),
    )
    expect(answers.map(({ status }) => String(status)).toSorted()).toEqual(['200', '409'])
    const refused = answers.find(({ status }) => status === 409)?.json.error
    expect(refused).toMatchObject({
      code: 'wrong_state',
      details: [{ path: 'expectedRevision', message: 'The newest is 2' }],
    })
    expect((await save('expect', 'tasks', 'x', { expectedRevision: 0 })).status).toBe(200)
    expect((await save('expect', 'tasks', 'y', { expectedRevision: 0 })).status).toBe(409)
  })

  test('[SDD8] an artifact is stale from the first later save of an earlier phase until it is saved anew', async () => {
    const stale = async () =>
      Object.fromEntries(
        (await get('/v1/changes/stale')).artifacts.map(
          (one: { phase: string; staleSince: number | null }) => [one.phase, one.staleSince],
        ),
      )
    await save('stale', 'proposal', 'p1')
    await save('stale', 'tasks', 't1')
    await save('stale', 'verify', 'v1')
    expect(await stale()).toEqual({ proposal: null, tasks: null, verify: null })
    await tick()
    const since = app.deps.now()
    await save('stale', 'proposal', 'p2')
    await tick()
    await save('stale', 'proposal', 'p3')
    expect(await stale()).toEqual({ proposal: null, tasks: since, verify: since })
    await tick()
    const later = app.deps.now()
    await save('stale', 'tasks', 't2')
    expect(await stale()).toEqual({ proposal: null, tasks: null, verify: since })
    await save('stale', 'verify', 'v2')
    await save('stale', 'explore', 'e1')
    expect(await stale()).toEqual({ explore: null, proposal: later, tasks: later, verify: later })
    // It blocks nothing.
    expect((await get(at('stale', 'archive', '/readiness'))).ready).toBe(true)
  })
})

describe('approvals', () => {
  const approve = (change: string, body: object, credential = reviewer) =>
    app.call('POST', at(change, 'spec', '/approvals'), credential, body)
  const isApproved = async (change: string) =>
    (await get(`/v1/changes/${change}`)).artifacts[0].approved

  test('[SDD9] are bound to the hash of what was read, and void for the next revision', async () => {
    await save('ok', 'spec', 'one')
    expect(await isApproved('ok')).toBe(false)
    const word = (await approve('ok', { sha256: sha256('one'), reason: 'good' })).json
    expect(word).toMatchObject({ revision: 1, decision: 'approved', owner: 'reviewer' })
    expect(await isApproved('ok')).toBe(true)
    expect((await get(at('ok', 'spec'))).approvals).toEqual([word])
    await save('ok', 'spec', 'two')
    expect(await isApproved('ok')).toBe(false)
    const late = await approve('ok', { sha256: sha256('one') })
    expect([late.status, late.json.error.code]).toEqual([409, 'wrong_state'])
    expect(late.json.error.details[0].message).toContain(sha256('two'))
    await save('ok', 'spec', 'one')
    expect(await isApproved('ok')).toBe(false)
  })

  test('[SDD9] are not given by who saved it, who may still reject it', async () => {
    await save('self', 'spec', 'mine')
    const given = { sha256: sha256('mine') }
    expect(await outcome(approve('self', given, key))).toEqual([403, 'forbidden'])
    expect(await outcome(approve('self', given, await keyOf('writer')))).toEqual([403, 'forbidden'])
    expect((await approve('self', { ...given, decision: 'rejected' }, key)).status).toBe(200)
    expect(await isApproved('self')).toBe(false)
  })

  test('[SDD9] nobody approves the own work with a key of the own making', async () => {
    const maker = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    const body = { name: 'k', owner: 'puppet', scopes: ['write', 'approve'] }
    const puppet = (await app.call('POST', '/v1/keys', maker, body)).json.secret as string
    const given = { sha256: sha256('one') }
    for (const [change, saver, approver] of [
      ['own', maker, puppet],
      ['lent', puppet, maker],
    ] as const) {
      await save(change, 'spec', 'one', {}, saver)
      expect(await outcome(approve(change, given, approver))).toEqual([403, 'forbidden'])
    }
  })

  test('[SDD9] nobody approves the own work because another member has made one of the keys', async () => {
    const maker = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    const keyFor = async (by: string) => {
      const body = { name: 'k', owner: 'worker', scopes: ['admin'] }
      return (await app.call('POST', '/v1/keys', by, body)).json.secret as string
    }
    const older = await keyFor(maker)
    await app.live(25 * 3_600_000)
    const newer = await keyFor(maker)
    const given = { sha256: sha256('one') }
    for (const [change, saver, approver] of [
      ['rotated', older, newer],
      ['rotating', newer, older],
    ] as const) {
      await save(change, 'spec', 'one', {}, saver)
      expect(await outcome(approve(change, given, approver))).toEqual([403, 'forbidden'])
    }
    const third = { name: 'k', owner: 'third', scopes: ['write', 'approve'] }
    const other = (await app.call('POST', '/v1/keys', maker, third)).json.secret as string
    await app.live(25 * 3_600_000)
    expect((await approve('rotated', given, other)).status).toBe(200)
  })

  test('[SDD9] a member has one word, the last, and one rejection is enough', async () => {
    await save('words', 'spec', 'text')
    const given = { sha256: sha256('text') }
    const reason = `unclear ghp_${'a1B2'.repeat(9)}`
    const { json } = await approve('words', { ...given, decision: 'rejected', reason })
    expect(json.reason).toBe('unclear [secret-like:github]')
    await approve('words', given, await keyOf('third'))
    expect(await isApproved('words')).toBe(false)
    await approve('words', given)
    expect(await isApproved('words')).toBe(true)
    expect((await get(at('words', 'spec'))).approvals).toHaveLength(2)
    expect(await outcome(approve('nothing', given))).toEqual([404, 'not_found'])
  })
})

describe('import', () => {
  const artifacts = [
    { change: 'imp', phase: 'spec', content: 'new spec' },
    { change: 'imp', phase: 'proposal', content: 'same' },
    { change: 'imp', phase: 'explore', content: 'changed' },
  ]
  const send = (body: object) =>
    app.call('POST', '/v1/changes/import', key, { project: 'imported', ...body })
  const items = ['created', 'unchanged', 'updated'].map((result, index) => ({
    topicKey: `sdd/imp/${artifacts[index]?.phase}`,
    outcome: result,
    revision: [1, 1, 2][index],
  }))

  test('[SDD10] a dry run says what would happen and stores nothing; the import does that, once', async () => {
    const place = { project: 'imported' }
    await save('imp', 'proposal', 'same', place)
    await save('imp', 'explore', 'before', place)
    const before = await get('/v1/changes/imp?project=imported')
    expect((await send({ artifacts, dryRun: true })).json).toEqual({ dryRun: true, items })
    expect(await get('/v1/changes/imp?project=imported')).toEqual(before)
    expect((await send({ artifacts })).json).toEqual({ dryRun: false, items })
    const after = await get('/v1/changes/imp?project=imported')
    expect(after.artifacts.map(({ revision }: { revision: number }) => revision)).toEqual([2, 1, 1])
    const again = (await send({ artifacts })).json.items
    expect(again.map((one: { outcome: string }) => one.outcome)).toEqual([
      ...['unchanged', 'unchanged', 'unchanged'],
    ])
    expect(await get('/v1/changes/imp?project=imported')).toEqual(after)
  })

  test('[SDD10] what is wrong in one is imported of none, and named', async () => {
    const good = { change: 'none', phase: 'explore', content: 'x' }
    for (const [bad, status, path] of [
      [{ ...good, phase: 'plan' }, 400, 'artifacts.1.phase'],
      [{ ...good, content: ' ' }, 400, 'artifacts.1.content'],
      [good, 422, 'artifacts.1'],
    ] as const) {
      const answer = await send({ artifacts: [good, bad] })
      expect([answer.status, answer.json.error.details[0].path]).toEqual([status, path])
    }
    expect((await get('/v1/changes/none?project=imported')).present).toEqual([])
  })

  test('[SDD10] a database that fails at any statement has stored nothing of it', async () => {
    const db = libsql.db()
    const broken = createTestApp({
      db: () => ({
        all: (...given) => db.all(...given),
        batch: (statements) => {
          const isOurs = statements.some(({ sql }) => sql.includes('phase_artifacts'))
          return db.batch(isOurs ? [...statements, { sql: 'selec 1', values: [] }] : statements)
        },
      }),
    })
    const { secret } = await broken.makeKey(await broken.makeOrganisation(), 'write')
    const body = { artifacts: artifacts.slice(0, 2) }
    const answer = await broken.call('POST', '/v1/changes/import', secret, body)
    expect(answer.status).toBeGreaterThanOrEqual(500)
    expect((await broken.call('GET', '/v1/changes/imp', secret)).json.present).toEqual([])
  })
})

test('[SDD11] reading and saving starts nothing and saves no other phase', async () => {
  const counts = () =>
    libsql
      .db()
      .all(
        'select (select count(*) from sessions) as sessions, (select count(*) from runs) as runs',
      )
  const before = await counts()
  const asked = app.sessions.size
  await save('quiet', 'tasks', 'Then apply: edit src/main.ts and set the phase to verify.')
  for (const path of ['', '/workflow', '/phases/tasks', '/phases/verify/readiness'])
    expect((await app.call('GET', `/v1/changes/quiet${path}`, key)).status).toBe(200)
  await app.live()
  expect((await get('/v1/changes/quiet')).present).toEqual(['tasks'])
  expect([await counts(), app.sessions.size]).toEqual([before, asked])
})
