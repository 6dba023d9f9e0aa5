import { beforeEach, describe, expect, test } from 'vitest'
import { defaultLimits } from '../../src/contract/limits.ts'
import { createTestApp, type TestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let admin: string
let reader: string

beforeEach(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  admin = (await app.makeKey(organisationId, 'admin')).secret
  reader = (await app.makeKey(organisationId, 'read')).secret
})

const claim = (sessionId: string, more = {}) => ({
  sessionId,
  generation: 1,
  project: 'default',
  provider: 'e2b' as const,
  ...more,
})

describe('limits', () => {
  test('[FIRE4] an admin sets them, everybody sees them, what is left out is the default again', async () => {
    const before = await app.call('GET', '/v1/limits', reader)
    expect([before.status, before.json]).toMatchObject([
      200,
      { project: null, limits: defaultLimits, set: {}, killed: false, breakers: [] },
    ])
    const set = await app.call('PUT', '/v1/limits', admin, { concurrentSandboxes: 7 })
    expect(set.json).toMatchObject({
      limits: { ...defaultLimits, concurrentSandboxes: 7 },
      set: { concurrentSandboxes: 7 },
    })
    const project = await app.call('PUT', '/v1/limits?project=web', admin, { moneyPerDay: 3 })
    expect(project.json).toMatchObject({
      project: 'web',
      limits: { concurrentSandboxes: 7, moneyPerDay: 3 },
    })
    expect((await app.call('PUT', '/v1/limits', reader, {})).status).toBe(403)
    await app.call('PUT', '/v1/limits', admin, {})
    expect((await app.call('GET', '/v1/limits', reader)).json.limits).toEqual(defaultLimits)
  })

  test('[FIRE4] what is no limit is refused with its path', async () => {
    for (const [body, path] of [
      [{ concurrentSandboxes: -1 }, 'concurrentSandboxes'],
      [{ sandboxesPerHour: 1.5 }, 'sandboxesPerHour'],
      [{ lifetimeSeconds: 86_401 }, 'lifetimeSeconds'],
      [{ lifetimeSeconds: 59 }, 'lifetimeSeconds'],
      [{ moneyPerDay: '3' }, 'moneyPerDay'],
      [{ prices: { e2b: 0 } }, 'prices'],
    ] as const) {
      const answer = await app.call('PUT', '/v1/limits', admin, body)
      expect([answer.status, answer.json.error.details?.[0].path]).toEqual([400, path])
    }
    for (const query of ['project=UPPER', 'project=', 'other=1'])
      expect((await app.call('GET', `/v1/limits?${query}`, reader)).status).toBe(400)
  })

  test('[FIRE16] the worst case is printed, for the organisation and for a project', async () => {
    const whole = await app.call('GET', '/v1/limits/worst-case', reader)
    expect(whole.json).toMatchObject({
      project: null,
      sandboxesPerHour: defaultLimits.sandboxesPerHour,
      sandboxesPerDay: 24 * defaultLimits.sandboxesPerHour,
      sandboxHoursPerDay: defaultLimits.hoursPerDay,
      moneyPerDay: 100,
      moneyPerDayByProvider: { local: 0, e2b: 100, modal: 100 },
    })
    await app.call('PUT', '/v1/limits?project=small', admin, { concurrentSandboxes: 1 })
    const small = await app.call('GET', '/v1/limits/worst-case?project=small', reader)
    expect(small.json).toMatchObject({ project: 'small', sandboxHoursPerDay: 24 })
    expect(small.json.moneyPerDayByProvider.e2b).toBeCloseTo(24 * 0.17, 9)
  })

  test('[FIRE8] what was done is listed, newest first, by pages, for this organisation alone', async () => {
    const own = await app.makeOrganisation()
    const key = (await app.makeKey(own, 'admin')).secret
    for (const hours of [1, 2, 3]) await app.call('PUT', '/v1/limits', key, { hoursPerDay: hours })
    await app.deps.organisation(own).sandboxes.reserve(claim('ses_a'))
    await app.deps.organisation(own).sandboxes.ended('ses_a', 1, { outcome: 'lost', reason: 'x' })
    app.pass(10_000)
    await app.actorOf(own).runDue()
    const first = await app.call('GET', '/v1/limits/actions?limit=2', key)
    expect(first.json.items).toMatchObject([
      { action: 'limits.changed', reason: expect.stringContaining('3'), sessionId: null },
      { action: 'limits.changed', reason: expect.stringContaining('2') },
    ])
    const second = await app.call(
      'GET',
      `/v1/limits/actions?limit=2&cursor=${first.json.nextCursor}`,
      key,
    )
    expect(second.json).toMatchObject({
      items: [{ reason: expect.stringContaining('1') }],
      nextCursor: null,
    })
    expect((await app.call('GET', '/v1/limits/actions', reader)).json.items).toEqual([])
    expect((await app.call('GET', '/v1/limits/actions?cursor=x', key)).status).toBe(400)
    const rows = await libsql
      .db()
      .all(
        'select session_id, provider, outcome, seconds, money from sandbox_reservations where organisation_id = ?',
        own,
      )
    expect(rows).toEqual([
      { session_id: 'ses_a', provider: 'e2b', outcome: 'lost', seconds: 0, money: 0 },
    ])
  })
})

describe('kill switches', () => {
  test('[FIRE11] an admin turns it on and off; a reader sees it', async () => {
    expect((await app.call('POST', '/v1/kill-switch', reader, { on: true })).status).toBe(403)
    const on = await app.call('POST', '/v1/kill-switch', admin, { on: true, reason: 'bill' })
    expect([on.status, on.json]).toMatchObject([
      200,
      { on: true, reason: 'bill', liveSandboxes: 0 },
    ])
    expect((await app.call('GET', '/v1/kill-switch', reader)).json).toMatchObject({ on: true })
    expect((await app.call('GET', '/v1/limits', reader)).json.killed).toBe(true)
    const refused = await app.deps.organisation(organisationId).sandboxes.reserve(claim('ses_b'))
    expect(refused).toMatchObject({ granted: false, reason: expect.stringContaining('is on') })
    await app.call('POST', '/v1/kill-switch', admin, { on: false })
    expect((await app.call('GET', '/v1/limits', reader)).json.killed).toBe(false)
    for (const body of [{}, { on: 'yes' }, { on: true, reason: 'x'.repeat(501) }])
      expect((await app.call('POST', '/v1/kill-switch', admin, body)).status).toBe(400)
  })

  test('[FIRE12] the operator’s key, and no other, stops the whole deployment', async () => {
    const path = '/v1/deployment/kill-switch'
    for (const credential of [undefined, admin, 'nonsense', `${testOperatorKey}x`]) {
      for (const method of ['GET', 'POST']) {
        const body = method === 'POST' ? { on: true } : undefined
        const answer = await app.call(method, path, credential, body)
        expect([answer.status, answer.json.error.code]).toEqual([401, 'unauthenticated'])
      }
    }
    expect((await app.call('GET', '/v1/limits', testOperatorKey)).status).toBe(401)
    const on = await app.call('POST', path, testOperatorKey, { on: true, reason: 'stop' })
    expect([on.status, on.json]).toMatchObject([200, { on: true, changedBy: 'operator' }])
    app.pass(3000)
    const refused = await app.deps.organisation(organisationId).sandboxes.reserve(claim('ses_c'))
    expect(refused).toMatchObject({ granted: false, reason: expect.stringContaining('is on') })
    expect((await app.call('GET', '/v1/kill-switch', reader)).json).toMatchObject({
      on: false,
      deployment: { on: true, reason: 'stop' },
    })
    await app.call('POST', path, testOperatorKey, { on: false })
    app.pass(3000)
    const granted = await app.deps.organisation(organisationId).sandboxes.reserve(claim('ses_c'))
    expect(granted).toMatchObject({ granted: true })
    expect((await app.call('GET', path, testOperatorKey)).json).toMatchObject({ on: false })
  })

  test('[FIRE12] without an operator’s key in the configuration there is no such switch', async () => {
    const bare = createTestApp({ db: libsql.db, operatorKey: null })
    const answer = await bare.call('POST', '/v1/deployment/kill-switch', testOperatorKey, {
      on: true,
    })
    expect([answer.status, answer.json.error.message]).toEqual([
      404,
      'This deployment has no operator: set GANTRY_OPERATOR_KEY',
    ])
  })
})
