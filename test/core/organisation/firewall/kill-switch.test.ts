import { describe, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import { deploymentId } from '../../../../src/core/organisation/record/ports.ts'
import { hour, orgId, TestDeployment } from '../../../support/organisation.ts'

const on = { on: true, reason: 'too expensive' }
const off = { on: false, reason: 'paid' }
const live = (world: TestDeployment) => world.sandboxes.running.size

async function withSandboxes(count = 3): Promise<TestDeployment> {
  const world = new TestDeployment()
  for (let i = 0; i < count; i++) await world.start(`s${i}`)
  return world
}

describe('the kill switch of an organisation', () => {
  test('[FIRE11] refuses at once, stops every sandbox, and is lifted by a person', async () => {
    const world = await withSandboxes()
    const answer = await world.org.api.firewall.setKillSwitch(on, 'key_x')
    expect(answer).toMatchObject({ on: true, changedBy: 'key_x', liveSandboxes: 3 })
    expect(await world.reserve('new')).toEqual({
      granted: false,
      retryAt: world.now + 15_000,
      reason:
        'Cannot start a sandbox: the kill switch of the organisation is on: too expensive. It must be lifted first',
    })
    // A place that is held already is no way around it.
    expect((await world.reserve('s0')).granted).toBe(false)
    await world.pass(60_000)
    expect(live(world)).toBe(0)
    expect(await world.org.api.firewall.killSwitch()).toMatchObject({ on: true, liveSandboxes: 0 })
    expect(world.deadlines()).not.toContain('kill')
    expect(world.actions().map(({ action }) => action)).toEqual([
      'kill-switch.on',
      ...Array.from({ length: 3 }, () => 'sandbox.killed'),
    ])

    await world.pass(hour)
    expect((await world.reserve('new')).granted).toBe(false)
    await world.org.api.firewall.setKillSwitch(off, 'key_x')
    expect((await world.start('new')).granted).toBe(true)
    await world.pass(hour)
    expect(live(world)).toBe(1)
  })

  test('[FIRE11] a session that is gone, or silent, does not keep its sandbox alive', async () => {
    for (const halt of [
      () => Promise.reject(new AppError('not_found', 'No such session')),
      () => Promise.reject(new Error('reset')),
      () => Promise.resolve(),
    ]) {
      const world = await withSandboxes()
      world.halt = halt
      await world.org.api.firewall.setKillSwitch(on, 'key')
      await world.pass(120_000)
      expect(live(world)).toBe(0)
      expect(world.actions().filter(({ action }) => action === 'sandbox.killed')).toHaveLength(3)
    }
  })

  test('[FIRE11] a provider that is away is told until it has heard', async () => {
    const world = await withSandboxes()
    world.sandboxes.fails = 100
    await world.org.api.firewall.setKillSwitch(on, 'key')
    await world.pass(120_000)
    expect(live(world)).toBe(3)
    expect(world.deadlines()).toContain('kill')
    world.crash()
    world.sandboxes.fails = 0
    await world.pass(120_000)
    expect(live(world)).toBe(0)
    expect(world.deadlines()).not.toContain('kill')
  })

  test('[FIRE11] an instance that dies in the middle is followed by one that goes on at once', async () => {
    const world = await withSandboxes(1)
    world.before = () => world.crash()
    await world.org.api.firewall.setKillSwitch(on, 'key')
    await world.pass(0)
    expect(live(world)).toBe(1)
    world.before = () => {}
    // Whoever comes by wakes it.
    await world.org.api.firewall.killSwitch()
    await world.pass(0)
    expect(live(world)).toBe(0)
  })

  test('[FIRE11] what nobody reserved, and what comes late, is stopped without grace', async () => {
    const world = await withSandboxes(1)
    await world.create('stray', 3600)
    await world.org.api.firewall.setKillSwitch(on, 'key')
    await world.pass(5000)
    expect(live(world)).toBe(0)
    // Its creation was under way at the provider all the time.
    await world.create('s0', 3600)
    await world.pass(61_000)
    expect(live(world)).toBe(0)
  })

  test('[FIRE11] lifted in the middle of its work it stops nothing more', async () => {
    const world = await withSandboxes(1)
    world.halt = () => Promise.resolve()
    await world.org.api.firewall.setKillSwitch(on, 'key')
    await world.pass(5000)
    await world.org.api.firewall.setKillSwitch(off, 'key')
    await world.pass(hour)
    expect(live(world)).toBe(1)
    expect(world.deadlines()).not.toContain('kill')
  })
})

describe('the kill switch of the deployment', () => {
  const others = ['org_a', 'org_b', 'org_c']

  test('[FIRE12] reaches every organisation that ever had a sandbox', async () => {
    const world = await withSandboxes()
    for (const id of others) await world.organisation(id).api.sandboxes.reserve(world.claim(id))
    await world.deployment.api.firewall.setKillSwitch(on, 'operator')
    expect(await world.deployment.api.deployment.killSwitch()).toMatchObject({
      on: true,
      changedBy: 'operator',
      organisations: 4,
      untold: 4,
    })
    await world.pass(60_000)
    expect(await world.deployment.api.deployment.killSwitch()).toMatchObject({ untold: 0 })
    expect(live(world)).toBe(0)
    for (const id of [orgId, ...others]) {
      const { deployment, on, liveSandboxes } = await world
        .organisation(id)
        .api.firewall.killSwitch()
      expect({ deployment, on, liveSandboxes }).toEqual({
        deployment: { on: true, reason: 'too expensive' },
        on: false,
        liveSandboxes: 0,
      })
    }
    expect(world.actions().map(({ action }) => action)).toContain('deployment-switch.on')
    // Also to one that comes only now.
    const fresh = await world.organisation('org_new').api.sandboxes.reserve(world.claim('n'))
    expect(fresh).toMatchObject({ granted: false, reason: expect.stringContaining('is on') })

    await world.deployment.api.firewall.setKillSwitch(off, 'operator')
    await world.pass(60_000)
    expect((await world.start('again')).granted).toBe(true)
    // The switch of an organisation is its own matter.
    await world.org.api.firewall.setKillSwitch(on, 'key')
    expect((await world.reserve('more')).granted).toBe(false)
    expect(
      (await world.organisation('org_a').api.sandboxes.reserve(world.claim('m'))).granted,
    ).toBe(true)
  })

  test('[FIRE12] an organisation that could not be told learns of it when it asks, within seconds', async () => {
    const world = await withSandboxes()
    world.before = (call, id) => {
      if (id === deploymentId && call === 'organisation.hear') throw new Error('away')
    }
    await world.deployment.api.firewall.setKillSwitch(on, 'operator')
    await world.pass(2900)
    world.now += 101
    expect((await world.reserve('new')).granted).toBe(false)
    await world.pass(60_000)
    expect(live(world)).toBe(0)
    expect(await world.deployment.api.deployment.killSwitch()).toMatchObject({ untold: 1 })
    world.before = () => {}
    await world.pass(60_000)
    expect(await world.deployment.api.deployment.killSwitch()).toMatchObject({ untold: 0 })
    expect(world.deadlines(deploymentId)).not.toContain('tell')
  })

  test('[FIRE12] one organisation that cannot be told does not keep the news from the others', async () => {
    const world = new TestDeployment()
    const ids = Array.from({ length: 50 }, (_, i) => `org_${String(i).padStart(2, '0')}`)
    for (const id of ids) await world.organisation(id).api.sandboxes.reserve(world.claim(id))
    const told = new Set<string>()
    for (const id of ids) {
      const actor = world.organisation(id)
      const hear = actor.api.deployment.hear.bind(actor)
      actor.api.deployment.hear = async (news) => {
        if (id === 'org_00') throw new Error('away')
        told.add(id)
        await hear(news)
      }
    }
    await world.deployment.api.firewall.setKillSwitch(on, 'operator')
    await world.pass(5000)
    expect(told.size).toBe(49)
    expect(await world.deployment.api.deployment.killSwitch()).toMatchObject({
      organisations: 50,
      untold: 1,
    })
  })

  test('[FIRE12] if it cannot be asked, no place is given', async () => {
    const world = new TestDeployment()
    world.before = (call) => {
      if (call === 'organisation.admit') throw new Error('away')
    }
    const refused = await world.reserve('a')
    expect(refused).toEqual({
      granted: false,
      retryAt: world.now + 5000,
      reason: 'Cannot start a sandbox: the kill switch of the deployment cannot be asked',
    })
    world.before = () => {}
    expect((await world.reserve('a')).granted).toBe(true)
    // Its answer holds for moments only.
    world.before = () => {
      throw new Error('away')
    }
    expect((await world.reserve('b')).granted).toBe(true)
    world.now += 3000
    expect((await world.reserve('c')).granted).toBe(false)
  })

  test('[FIRE12] an answer that was overtaken by the switch gives no place', async () => {
    const world = new TestDeployment()
    // The answer "off" is on its way while the switch is turned on and the organisation is told.
    world.after = async (call) => {
      if (call !== 'organisation.admit') return
      world.after = () => {}
      await world.deployment.api.firewall.setKillSwitch(on, 'operator')
      await world.pass(100)
    }
    expect((await world.reserve('a')).granted).toBe(false)
    expect((await world.usage()).concurrentSandboxes).toBe(0)
  })

  test('[FIRE12] news that come late are known as such', async () => {
    const world = await withSandboxes(1)
    await world.org.api.deployment.hear({ version: 2, on: false, reason: '' })
    await world.org.api.deployment.hear({ version: 1, on: true, reason: 'old' })
    await world.pass(60_000)
    expect(live(world)).toBe(1)
    expect((await world.org.api.firewall.limits(null)).killed).toBe(false)
  })
})

test('[FIRE12] a switch that is changed while organisations are told of it reaches them as it is then', async () => {
  const world = await withSandboxes(1)
  let isChanged = false
  world.before = async (call, id) => {
    if (id !== deploymentId || call !== 'organisation.hear' || isChanged) return
    isChanged = true
    await world.deployment.api.firewall.setKillSwitch(off, 'operator')
  }
  await world.deployment.api.firewall.setKillSwitch(on, 'operator')
  await world.pass(60_000)
  const { deployment, firewall } = world.deployment.api
  expect(await deployment.killSwitch()).toMatchObject({ on: false, untold: 0 })
  expect(await firewall.killSwitch()).toMatchObject({ on: false })
  expect(await world.org.api.firewall.killSwitch()).toMatchObject({ deployment: { on: false } })
})
