import { beforeEach, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { LinkedAgent } from '../support/linked-agent.ts'
import { MemorySandboxes, nameOf } from '../support/memory-sandboxes.ts'

const libsql = useLibsql()
let app: TestApp
let sandboxes: MemorySandboxes
let organisationId: string
let key: string
let configurationId: string
let path: string

beforeEach(async () => {
  sandboxes = new MemorySandboxes(() => app.deps.now())
  app = createTestApp({ db: libsql.db, sandboxes })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  const made = await app.call('POST', '/v1/configurations', key, {
    name: 'web',
    warmPool: { size: 3 },
  })
  expect([made.status, made.json.warmPool]).toEqual([201, { size: 3 }])
  configurationId = made.json.id
  path = `/v1/configurations/${configurationId}`
})

const pool = async () => (await app.call('GET', `${path}/warm-pool`, key)).json

/** Everything that is due is done, and every agent calls, until nothing changes any more. */
async function fill(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await app.live()
    for (const [id, session] of app.sessions) {
      const view = await session.api.self.view({ organisationId }).catch(() => null)
      if (view?.sandbox.state !== 'booting') continue
      const { spec } = sandboxes.running.get(nameOf(id, view.sandbox.generation))!
      const socket = await app.link(id, spec.token)
      if (socket) await new LinkedAgent(socket).meet()
    }
    await app.live()
    if ((await pool()).ready === (await pool()).size) return
  }
}

const create = (body: object = {}, headers = {}) =>
  app.call('POST', '/v1/sessions', key, { configurationId, ...body }, headers)

describe('a pool', () => {
  test('[WARM1] the configuration says how large it is, and its view how full', async () => {
    expect(await pool()).toMatchObject({ size: 3, ready: 0 })
    await fill()
    expect(await pool()).toEqual({ size: 3, ready: 3, starting: 0, reason: null, retryAt: null })
    expect((await app.call('GET', path, key)).json.warmPool).toEqual({ size: 3 })
    expect(sandboxes.running.size).toBe(3)
  })

  test('[WARM1] its sessions are in no list but the one of the warm ones', async () => {
    await fill()
    const list = async (query: string) =>
      (await app.call('GET', `/v1/sessions${query}`, key)).json.items.length
    await expect.poll(() => list('?status=warm')).toBe(3)
    expect([await list(''), await list('?status=open')]).toEqual([0, 0])
    expect((await app.call('GET', '/v1/status', key)).json.sessions.live).toBe(0)
  })

  test('[WARM1] its size is between nothing and twenty', async () => {
    for (const size of [-1, 21, 1.5, '3'])
      expect((await app.call('PATCH', path, key, { warmPool: { size } })).status).toBe(400)
    const none = createTestApp({ db: libsql.db })
    const answer = await none.call('PATCH', path, key, { warmPool: { size: 1 } })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([422, 'warmPool.size'])
    const off = await none.call('PATCH', path, key, { name: 'web' })
    expect(off.status).toBe(200)
  })
})

describe('creating a session', () => {
  test('[WARM5] twenty at once: three are ready at once, each another one, the rest start cold', async () => {
    await fill()
    // A libSQL server that is busy says so, and its clients come again.
    const patient = async (n: number) => {
      for (;;) {
        const answer = await create({ title: 'x' }, { 'idempotency-key': `twenty-${n}` })
        if (answer.status !== 503) return answer
      }
    }
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => patient(n)))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(201))
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(20)
    const states = answers.map(({ json }) => json.sandbox.state)
    expect(states.filter((state) => state === 'ready')).toHaveLength(3)
    for (const { json } of answers) expect(json).toMatchObject({ status: 'open', title: 'x' })
  })

  test('[MBR9] the member that claims a session has made it', async () => {
    await fill()
    const [warm] = [...app.sessions.values()]
    expect((await warm!.api.self.view({ organisationId })).memberId).toBeNull()
    const { memberId } = (await app.call('GET', '/v1/keys', key)).json.items[0]
    const { json } = await create()
    expect([json.sandbox.state, json.memberId]).toEqual(['ready', memberId])
  })

  test('[WARM5] the same key leads to the same session, whatever became of the pool since', async () => {
    await fill()
    const headers = { 'idempotency-key': 'warm' }
    const first = await create({}, headers)
    expect(first.json.sandbox.state).toBe('ready')
    await app.call('PATCH', path, key, { warmPool: { size: 0 } })
    expect((await create({}, headers)).json.id).toBe(first.json.id)
    const cold = await create({}, { 'idempotency-key': 'cold' })
    expect(cold.json.sandbox.state).toBe('requested')
    await app.call('PATCH', path, key, { warmPool: { size: 3 } })
    await fill()
    expect((await create({}, { 'idempotency-key': 'cold' })).json.id).toBe(cold.json.id)
    expect(await pool()).toMatchObject({ ready: 3 })
  })

  test('[WARM5] twice at once with one key is one session', async () => {
    await fill()
    const headers = { 'idempotency-key': 'twice' }
    const answers = await Promise.all([1, 2, 3].map(() => create({}, headers)))
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  })

  test('[WARM7] a secret that was set since is in the session: no older sandbox is taken', async () => {
    await fill()
    const before = new Set(sandboxes.running.keys())
    await app.call('PUT', '/v1/secrets/NEW_ONE', key, { value: 'a new value', configurationId })
    const cold = await create()
    expect(cold.json.sandbox.state).toBe('requested')
    await fill()
    const warm = await create()
    expect(warm.json.sandbox.state).toBe('ready')
    expect(before.has(`${warm.json.id}.1`)).toBe(false)
  })

  test('[WARM8] a session that was warm can be deleted like any other', async () => {
    await fill()
    const headers = { 'idempotency-key': 'deleted' }
    const { id } = (await create({}, headers)).json
    expect((await app.call('DELETE', `/v1/sessions/${id}`, key)).status).toBe(204)
    const again = await create({}, headers)
    expect([again.status, again.json.error.code]).toEqual([409, 'wrong_state'])
  })

  test('[WARM9] with its configuration the pool goes', async () => {
    await fill()
    await app.call('DELETE', path, key)
    const warm = async () => {
      await app.actorOf(organisationId).runDue()
      const views = [...app.sessions.values()].map((s) => s.api.self.view({ organisationId }))
      const settled = await Promise.allSettled(views)
      return settled.filter((v) => v.status === 'fulfilled' && v.value.status === 'warm').length
    }
    await expect.poll(warm).toBe(0)
  })
})
