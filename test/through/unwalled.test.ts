import { describe, expect, test } from 'vitest'
import type { Enclosure } from '../../src/contract/enclosure.ts'
import { Enforcement } from '../../src/contract/operation.ts'
import { type HostSession, useHost } from '../support/host.ts'

/** As a deployment whose operator has said nothing. */
const host = useHost({ unwalledApprovals: 'refuse' })

/** A question waits for a person in a sandbox with this enclosure. */
async function ask(level: Enclosure): Promise<{ session: HostSession; path: string }> {
  const session = await host().begin()
  const enclosure = { level, how: 'test', why: level === 'full' ? null : 'no namespaces' }
  session.agent.send({ t: 'ready', bootMs: 1, enforces: [...Enforcement.options], enclosure })
  await host().live()
  await session.prompt()
  await session.ask('bash', { command: 'sudo ls' })
  const [{ id }] = (await host().ok('GET', `${session.at}/approvals`)).items
  return { session, path: `/v1/approvals/${id}/resolve` }
}
const resolve = async (path: string, resolution: string) =>
  host().call('POST', path, { resolution })

describe('[APR13] what a sandbox without an enclosure asks', () => {
  test('is approved by nobody until the operator accepts that', async () => {
    const { path } = await ask('none')
    const refused = await resolve(path, 'approved')
    expect([refused.status, refused.json.error.code]).toEqual([403, 'forbidden'])
    expect(refused.json.error.message).toContain('GANTRY_UNWALLED_APPROVALS=accept')
    const rejected = await resolve(path, 'rejected')
    expect([rejected.status, rejected.json.state]).toEqual([200, 'rejected'])
  })

  test.each(['uid', 'full'] as const)('is approved under %s', async (level) => {
    const { path } = await ask(level)
    const { status, json } = await resolve(path, 'approved')
    expect([status, json.state]).toEqual([200, 'approved'])
  })

  test('says nothing of what a key asks', async () => {
    const { session } = await ask('none')
    const run = await host().ok('POST', `${session.at}/runs`, { intent: 'i' })
    const operation = { category: 'shell', operation: 'run', command: 'sudo ls' }
    const asked = await host().ok('POST', `/v1/runs/${run.id}/operations`, { operation })
    const approver = await host().newApprover()
    const path = `/v1/approvals/${asked.approvalId}/resolve`
    const { status } = await host().call('POST', path, { resolution: 'approved' }, approver)
    expect(status).toBe(200)
  })
})
