import { describe, expect, test } from 'vitest'
import { hostsOf, useStack } from '../support/stack.ts'

async function until(look: () => Promise<boolean>): Promise<void> {
  for (const startedAt = Date.now(); !(await look());) {
    if (Date.now() - startedAt > 120_000) throw new Error(`Not within 120 s: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

describe.each(hostsOf(import.meta.filename))('the firewall on %s', (host) => {
  const stack = useStack(host)
  const actions = async (): Promise<string[]> => {
    // From libSQL: this wakes nobody.
    const { json } = await stack().api('GET', '/v1/limits/actions')
    return json.items.map(({ action }: { action: string }) => action)
  }

  test('[FIRE8] what was done reaches the ledger by the organisation’s own alarm, also after a restart', async () => {
    await stack().api('PUT', '/v1/limits', { concurrentSandboxes: 3 })
    await stack().restart()
    await until(async () => (await actions()).includes('limits.changed'))
    const { json } = await stack().api('GET', '/v1/limits')
    expect(json.limits.concurrentSandboxes).toBe(3)
    expect((await stack().api('GET', '/v1/limits/worst-case')).json.concurrentSandboxes).toBe(3)
  })

  test('[FIRE11] a kill switch stays on over a restart', async () => {
    const on = await stack().api('POST', '/v1/kill-switch', { on: true, reason: 'test' })
    expect([on.status, on.json.on]).toEqual([200, true])
    await stack().restart()
    expect((await stack().api('GET', '/v1/kill-switch')).json).toMatchObject({
      on: true,
      reason: 'test',
      liveSandboxes: 0,
    })
    await stack().api('POST', '/v1/kill-switch', { on: false })
    await until(async () => (await actions()).includes('kill-switch.off'))
  })

  test('[FIRE12] the operator’s key turns the switch of the deployment, and an admin’s does not', async () => {
    const path = '/v1/deployment/kill-switch'
    expect((await stack().api('POST', path, { on: true })).status).toBe(401)
    const credential = stack().env['GANTRY_OPERATOR_KEY'] ?? ''
    const on = await stack().api('POST', path, { on: true, reason: 'test' }, { credential })
    expect([on.status, on.json.on]).toEqual([200, true])
    await stack().restart()
    const off = await stack().api('POST', path, { on: false }, { credential })
    expect([off.status, off.json.on]).toEqual([200, false])
  })
})
