import { expect, test } from 'vitest'
import type { Db } from '../../src/core/ports.ts'
import { createTestApp } from '../support/app.ts'
import { someOf } from '../support/long.ts'
import { memoryDb } from '../support/memory-db.ts'
import { type Asked, type Case, cases, rowsOf, type World } from '../support/registry-cases.ts'

/** Dies at a call of the database, before or after it is carried out; then nothing is carried out until it is revived. */
function mortalDb(db: Db) {
  let left = Number.POSITIVE_INFINITY
  let after = false
  let calls = 0
  const died = () => new Error('The process is dead')
  async function carried<T>(work: () => Promise<T>): Promise<T> {
    calls += 1
    left -= 1
    if (left < 0 || (left === 0 && !after)) throw died()
    const outcome = await work()
    if (left === 0) throw died()
    return outcome
  }
  const mortal: Db = {
    all: (...asked) => carried(() => db.all(...asked)),
    batch: (statements) => carried(() => db.batch(statements)),
  }
  return {
    db: () => mortal,
    calls: () => calls,
    dieAt(call: number, isAfter: boolean) {
      left = call
      after = isAfter
    },
    revive: () => (left = Number.POSITIVE_INFINITY),
  }
}

async function newWorld() {
  const store = memoryDb()
  const mortal = mortalDb(store)
  const app = createTestApp({ db: mortal.db })
  const admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const send = (method: string, asked: Asked, headers: object = {}) =>
    app.call(method, asked.path, asked.as ? keys[asked.as] : admin, asked.body, headers)
  const ok: World['ok'] = async (method, path, body, as = admin) => {
    const { status, json, text } = await app.call(method, path, as, body)
    expect([method, path, status < 300, text]).toEqual([method, path, true, text])
    return json
  }
  await ok('PUT', '/v1/settings', { newKeysCount: true })
  const newKey = async (owner: string) =>
    (await ok('POST', '/v1/keys', { name: owner, owner, scopes: ['write', 'approve'] })).secret
  const keys = { anna: await newKey('anna'), bert: await newKey('bert') }
  const world: World = { ok, keys }
  return { store, mortal, world, send, app }
}

/** As it goes when nobody dies. */
async function undisturbed({ given, method }: Case) {
  const { store, mortal, world, send, app } = await newWorld()
  const asked = await given(world)
  const before = await rowsOf(store)
  const first = mortal.calls()
  const { status } = await send(method, asked, { 'idempotency-key': 'k' })
  const calls = mortal.calls() - first
  // Neither a session nor what is in one was asked for.
  expect(app.sessions.size).toBe(0)
  return { before, status, calls, after: await rowsOf(store) }
}

test.each(Object.entries(cases))(
  '[AGT22] [AGT23] %s: dead at any call of the database it is done or not at all, and done once by the same request again',
  async (_, one) => {
    const { before, after, status, calls } = await undisturbed(one)
    expect(status).toBeLessThan(300)
    expect(after).not.toBe(before)
    for (let call = 1; call <= calls; call += 1)
      for (const isAfter of someOf([false, true])) {
        const { store, mortal, world, send } = await newWorld()
        const asked = await one.given(world)
        mortal.dieAt(call, isAfter)
        await send(one.method, asked, { 'idempotency-key': 'k' })
        mortal.revive()
        expect([before, after]).toContain(await rowsOf(store))
        const again = await send(one.method, asked, { 'idempotency-key': 'k' })
        expect([call, isAfter, await rowsOf(store)]).toEqual([call, isAfter, after])
        if (one.method !== 'DELETE') expect([call, again.status]).toEqual([call, status])
        await store.batch([
          { sql: `insert into memory_index (memory_index) values ('integrity-check')`, values: [] },
        ])
      }
  },
)

test('[AGT22] no changing route of a registry is left out', async () => {
  const app = createTestApp({ db: memoryDb })
  const { json } = await app.call('GET', '/openapi.json')
  const readOnly = ['resolveAgents', 'resolveSkills', 'getSkillPayload']
  /** By the session that the run is in. */
  const ofSessions = ['judgeSkill', 'activateAgent']
  const found = Object.values(json.paths as Record<string, Record<string, Operation>>)
    .flatMap((methods) => Object.entries(methods))
    .filter(([method, { tags = [] }]) => method !== 'get' && tags.some((tag) => nouns.has(tag)))
    .map(([, { operationId }]) => operationId)
  expect(found.toSorted()).toEqual([...Object.keys(cases), ...readOnly, ...ofSessions].toSorted())
})
interface Operation {
  operationId: string
  tags?: string[]
}
const nouns = new Set(['agents', 'profiles', 'skills', 'memories', 'phases'])
