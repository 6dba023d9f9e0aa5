import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env as bindings } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import {
  type Env,
  organisationApi,
  bindPartsOnce,
  sessionApi,
} from '../../durable-objects/bindings.ts'
import type { OrganisationObject } from '../../durable-objects/organisation.ts'
import { createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { SandboxClaim } from '../../src/core/organisation/record/api.ts'
import { deploymentId } from '../../src/core/organisation/record/ports.ts'

const env = bindings as unknown as Env & Record<string, string>
type Stub = DurableObjectStub<OrganisationObject>

/** The stub's own type adds disposal to every result, and its promises are more than promises: here they are plain. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- who calls it says which api these are

let names = 0
function newOrganisation() {
  const id = `org_${String((names += 1)).padStart(20, '0')}`
  const stub: Stub = env.ORGANISATION.getByName(id)
  return { id, stub, api: organisationApi(env, id) }
}
const deployment = () => {
  const stub: Stub = env.ORGANISATION.getByName(deploymentId)
  return { stub, api: organisationApi(env, deploymentId) }
}
const claim = (sessionId: string, more: Partial<SandboxClaim> = {}): SandboxClaim => ({
  sessionId,
  generation: 1,
  project: 'default',
  provider: 'local',
  ...more,
})
const alarmOf = (stub: Stub) => runInDurableObject(stub, (_, state) => state.storage.getAlarm())

async function until<T>(look: () => Promise<T | false>): Promise<T> {
  for (let tries = 0; tries < 6000; tries++) {
    const value = await look()
    if (value) return value
    await scheduler.wait(20)
  }
  throw new Error(`Never: ${String(look)}`)
}

test('[FIRE7] 200 requests at once against a limit of 7 get exactly 7, in the real object', async () => {
  const { api, stub } = newOrganisation()
  await api.firewall.setLimits(null, { concurrentSandboxes: 7 }, 'key')
  const asked = Array.from({ length: 200 }, (_, i) => api.sandboxes.reserve(claim(`ses_${i}`)))
  const answers = await Promise.all(asked)
  const granted = answers.flatMap((answer, i) => (answer.granted ? [`ses_${i}`] : []))
  expect(granted).toHaveLength(7)
  expect(answers.find((answer) => !answer.granted)).toMatchObject({
    reason: expect.stringContaining('concurrentSandboxes'),
  })
  await evictDurableObject(stub)
  expect((await api.firewall.limits(null)).usage.concurrentSandboxes).toBe(7)
  expect((await api.sandboxes.reserve(claim('ses_new'))).granted).toBe(false)
  await api.sandboxes.ended(granted[0] ?? '', 1, { outcome: 'stopped', reason: '' })
  expect((await api.sandboxes.reserve(claim('ses_new'))).granted).toBe(true)
})

test('[FIRE8] its alarm survives an eviction and brings the rows to libSQL', async () => {
  const { id, api, stub } = newOrganisation()
  await api.sandboxes.reserve(claim('ses_a', { provider: 'e2b' }))
  await api.sandboxes.ended('ses_a', 1, { outcome: 'failed', reason: 'no boot' })
  expect(await alarmOf(stub)).not.toBeNull()
  await evictDurableObject(stub)
  await runInDurableObject(stub, (_, state) =>
    state.storage.sql.exec(`update deadlines set at = 0 where name = 'outbox'`),
  )
  await runDurableObjectAlarm(stub)
  const rows = await until(async () => {
    const found = await bindPartsOnce(env)
      .db()
      .all('select * from sandbox_reservations where organisation_id = ?', id)
    return found.length > 0 && found
  })
  expect(rows).toMatchObject([{ session_id: 'ses_a', outcome: 'failed', reason: 'no boot' }])
})

test('[FIRE13] a provider that cannot be reached is looked at again by the next alarm', async () => {
  const { api, stub } = newOrganisation()
  await api.sandboxes.reserve(claim('ses_a'))
  await evictDurableObject(stub)
  for (let times = 0; times < 3; times++) {
    await runInDurableObject(stub, (_, state) =>
      state.storage.sql.exec(`update deadlines set at = 0 where name = 'reconcile'`),
    )
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    // Not put off by a lease, but set anew by the work itself.
    await until(() =>
      runInDurableObject(stub, (_, { storage }) => {
        const query = `select 1 from deadlines where name = 'reconcile' and at > 0 and runner is null`
        return storage.sql.exec(query).toArray().length === 1
      }),
    )
  }
  expect(await alarmOf(stub)).not.toBeNull()
  expect((await api.firewall.limits(null)).usage.concurrentSandboxes).toBe(1)
})

test('[FIRE12] the deployment’s switch reaches organisations and their sessions by itself', async () => {
  const { id, api } = newOrganisation()
  const caller = {
    organisationId: id,
    keyId: `key_${'1'.repeat(20)}`,
    memberId: 'mbr_tester',
    owner: 'tester',
  }
  const secret = Uint8Array.from(atob(env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
    letter.charCodeAt(0),
  )
  const sessionId = await createCryptoSessionIds(secret).mint()
  const session = sessionApi(env, sessionId)
  await session.self.create({
    ...caller,
    sessionId,
    input: SessionCreate.parse({ sandbox: 'local' }),
  })
  // Its provider is not there, so it tries and tries.
  await until(async () => (await api.firewall.limits(null)).usage.concurrentSandboxes === 1)

  await deployment().api.firewall.setKillSwitch({ on: true, reason: 'enough' }, 'operator')
  const stopped = await until(async () => {
    const { sandbox } = await session.self.view(caller)
    return ['stopping', 'stopped'].includes(sandbox.state) && sandbox
  })
  expect(stopped.reason).toBe('The kill switch of the deployment is on: enough')
  expect(await api.sandboxes.reserve(claim('ses_b'))).toMatchObject({ granted: false })
  await until(async () => (await deployment().api.deployment.killSwitch()).untold === 0)

  await deployment().api.firewall.setKillSwitch({ on: false, reason: '' }, 'operator')
  await until(async () => (await api.sandboxes.reserve(claim('ses_b'))).granted)
})
