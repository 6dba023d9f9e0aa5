import { describe, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import { day, hour, orgId, TestDeployment } from '../../../support/organisation.ts'

const minute = 60_000

/** What libSQL has been sent of one kind, oldest first. */
const told = (world: TestDeployment, kind: string): Record<string, unknown>[] =>
  [...world.ledger().rows.values()]
    .filter((row) => row.kind === kind)
    .map(({ payload }) => JSON.parse(payload))

const actions = (world: TestDeployment) =>
  told(world, 'sandbox_action').map((row) => {
    const { createdAt: _, ...action } = row
    return action
  })

const failures = async (world: TestDeployment, times: number) => {
  for (let n = 0; n < times; n += 1) {
    await world.reserve(`fails${n}`)
    await world.end(`fails${n}`, 1, 'failed')
  }
}

describe('[FIRE8] what libSQL is told', () => {
  test('of a place: whose it is, when it began, connected and ended, its time and its money', async () => {
    const world = new TestDeployment({ prices: { modal: 3.6 }, lifetimeSeconds: 940 })
    const grantedAt = world.now
    await world.reserve('a', { project: 'p', provider: 'modal', generation: 3 })
    world.now += 5000
    await world.connect('a', 3)
    world.now += 15_250
    await world.end('a', 3, 'lost')
    await world.end('a', 3, 'failed')
    await world.pass(10_000)
    const whose = { sessionId: 'a', generation: 3, provider: 'modal', project: 'p', grantedAt }
    const open = { connectedAt: null, endedAt: null, outcome: null, reason: null }
    expect(told(world, 'sandbox_reservation')).toEqual([
      { ...whose, ...open, seconds: 1000, money: 1 },
      {
        ...{ ...whose, connectedAt: grantedAt + 5000, endedAt: grantedAt + 20_250 },
        ...{ outcome: 'lost', reason: 'it lost', seconds: 20, money: expect.closeTo(0.02025, 9) },
      },
    ])
  })

  test('of an orphan: it begins when it is found, and what was said of its end is taken back', async () => {
    const world = new TestDeployment({ prices: { e2b: 3.6 } })
    await world.start('a')
    await world.connect('a')
    await world.reserve('late')
    await world.end('late', 1, 'failed')
    await world.pass(2 * minute)
    await world.create('late', 36_000)
    await world.create('stray', 36_000)
    await world.pass(minute + 10_000)
    const [foundAt] = world
      .sql()
      .all<{ at: number }>(`select granted_at as at from reservations where session_id = 'stray'`)
    const newest = (id: string) =>
      told(world, 'sandbox_reservation').findLast(({ sessionId }) => sessionId === id)
    const nothing = { outcome: null, reason: null, endedAt: null, connectedAt: null }
    expect(newest('stray')).toEqual({
      ...{ ...nothing, sessionId: 'stray', generation: 1, provider: 'e2b', project: '' },
      ...{ grantedAt: foundAt?.at, seconds: 0, money: 0 },
    })
    expect(newest('late')).toMatchObject({ ...nothing, project: 'default' })
    await world.pass(4 * minute)
    expect(newest('late')).toMatchObject({
      outcome: 'orphan',
      reason: 'It ran without a reservation',
    })
    // Nobody can ask for the place of an orphan.
    expect((await world.reserve('stray')).granted).toBe(false)
  })

  test('of an action: who did it, to which sandbox, at which provider', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.connect('a')
    await failures(world, 5)
    world.now = (await world.breaker())?.openUntil ?? 0
    await world.reserve('trial')
    await world.connect('trial')
    await world.org.api.firewall.setKillSwitch({ on: true, reason: 'x'.repeat(600) }, 'key_x')
    await world.pass(minute)
    const of = (name: string) => actions(world).find(({ action }) => action === name)
    const nobody = { sessionId: null, generation: null }
    expect(of('breaker.opened')).toEqual({
      ...{ action: 'breaker.opened', actor: 'breaker', provider: 'e2b', ...nobody },
      reason: '5 sandboxes in a row never connected. Session "fails4" says why',
    })
    expect(of('breaker.closed')).toEqual({
      ...{ action: 'breaker.closed', actor: 'breaker', provider: 'e2b', ...nobody },
      reason: 'A sandbox has connected',
    })
    expect(of('kill-switch.on')).toEqual({
      ...{ action: 'kill-switch.on', actor: 'key_x', provider: null, ...nobody },
      reason: 'x'.repeat(500),
    })
    expect(actions(world)).toContainEqual({
      ...{ action: 'sandbox.killed', actor: 'kill-switch', provider: 'e2b' },
      ...{ sessionId: 'a', generation: 1, reason: expect.stringContaining('is on: xxx') },
    })
  })
})

describe('[FIRE6] places that have ended', () => {
  test('are kept for three days, and go one by one', async () => {
    const world = new TestDeployment()
    const ids = () =>
      world
        .sql()
        .all<{ id: string }>('select session_id as id from reservations order by id')
        .map(({ id }) => id)
    await world.reserve('a')
    await world.end('a')
    await world.pass(hour)
    await world.start('b')
    await world.pass(3 * day - 2 * hour)
    expect(ids()).toEqual(['a', 'b'])
    await world.start('c')
    await world.pass(2 * hour)
    expect(ids()).toEqual(['b', 'c'])
  })
})

describe('[FIRE10] while one tries', () => {
  test('the others are told to ask again in 15 s, and where to check; it is forgotten after five minutes', async () => {
    const world = new TestDeployment()
    await failures(world, 5)
    world.now = (await world.breaker())?.openUntil ?? 0
    await world.reserve('trial')
    const refused = await world.reserve('other')
    expect(refused).toEqual({
      granted: false,
      retryAt: world.now + 15_000,
      reason:
        'Cannot start a sandbox: the last 5 sandboxes of provider "e2b" never connected, and one sandbox is trying it now. Check it with POST /v1/providers/e2b/check',
    })
    world.now += 5 * minute - 1
    expect((await world.reserve('other')).granted).toBe(false)
    world.now += 1
    expect((await world.reserve('other')).granted).toBe(true)
    // The trial is the other one's now.
    await world.end('trial', 1, 'failed')
    expect(await world.breaker()).toMatchObject({ state: 'half-open', failures: 6 })
    await world.end('other', 1, 'failed')
    expect(await world.breaker()).toMatchObject({ state: 'open', failures: 7 })
  })

  test('each provider has its own, and they are shown by name', async () => {
    const world = new TestDeployment()
    for (const provider of ['modal', 'e2b'] as const) {
      await world.reserve(`of ${provider}`, { provider })
      await world.end(`of ${provider}`, 1, 'failed')
    }
    expect((await world.org.api.firewall.limits(null)).breakers).toEqual([
      {
        ...{ provider: 'e2b', state: 'closed', failures: 1, openUntil: null },
        lastReason: 'Session "of e2b" says why',
      },
      {
        ...{ provider: 'modal', state: 'closed', failures: 1, openUntil: null },
        lastReason: 'Session "of modal" says why',
      },
    ])
    await world.reserve('works')
    await world.connect('works')
    expect((await world.org.api.firewall.limits(null)).breakers).toHaveLength(1)
  })
})

describe('[FIRE1] [FIRE2] a refusal says when to ask again', () => {
  test('in half a minute where something may end before, and at midnight at the latest', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 1 })
    await world.reserve('a')
    expect(await world.reserve('b')).toMatchObject({ retryAt: world.now + 30_000 })
    const hours = new TestDeployment({ hoursPerDay: 1, lifetimeSeconds: 3540 })
    await hours.reserve('a')
    expect(await hours.reserve('b')).toMatchObject({ retryAt: hours.now + 30_000 })
    hours.now = Date.UTC(2026, 10, 17) - 10_000
    hours
      .sql()
      .run('update reservations set granted_at = ?, until = ?', hours.now - hour, hours.now + 1)
    expect(await hours.reserve('b')).toMatchObject({ retryAt: Date.UTC(2026, 10, 17) })
  })
})

describe('[FIRE14] the provider is asked', () => {
  test('every minute while a place is held, and for half an hour after the last one', async () => {
    const world = new TestDeployment()
    await world.reserve('a')
    await world.end('a')
    await world.pass(10 * minute)
    expect(world.calls.filter((call) => call === 'provider.list')).toHaveLength(10)
    await world.pass(19 * minute)
    expect(world.deadlines()).toContain('reconcile')
    await world.pass(2 * minute)
    expect(world.deadlines()).not.toContain('reconcile')
  })

  test('as long as one of them has not answered, whatever the others say', async () => {
    const world = new TestDeployment()
    for (const provider of ['e2b', 'modal'] as const) {
      await world.reserve(provider, { provider })
      await world.end(provider)
    }
    let lists = 0
    const list = world.sandboxes.list.bind(world.sandboxes)
    world.sandboxes.list = async (id) => {
      // The first of each two is that of e2b.
      if ((lists += 1) % 2 === 1) throw new Error('away')
      return list(id)
    }
    await world.pass(hour)
    expect(world.deadlines()).toContain('reconcile')
    world.sandboxes.list = list
    await world.pass(2 * minute)
    expect(world.deadlines()).not.toContain('reconcile')
  })
})

describe('[FIRE9] a connection', () => {
  test('is that of its own generation: an older one that never connected is still a failure', async () => {
    const world = new TestDeployment()
    await world.reserve('a')
    await world.reserve('a', { generation: 2 })
    await world.connect('a', 2)
    await world.end('a', 1, 'failed')
    expect(await world.breaker()).toMatchObject({ failures: 1 })
    await world.end('a', 2, 'failed')
    expect(await world.breaker()).toMatchObject({ failures: 1 })
  })
})

describe('[FIRE15] what the list forgets', () => {
  test('for a moment is not asked about, and waits anew when it is missing again', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.connect('a')
    const list = world.sandboxes.list.bind(world.sandboxes)
    world.sandboxes.list = async () => []
    await world.pass(2 * minute)
    world.sandboxes.list = list
    await world.pass(minute)
    world.sandboxes.list = async () => []
    await world.pass(2 * minute)
    expect(world.calls).not.toContain('provider.get')
    await world.pass(minute)
    expect(world.calls).toContain('provider.get')
  })

  test('and what it says of another generation, or of another session, is not about this one', async () => {
    const world = new TestDeployment()
    await world.start('a', { generation: 2 })
    await world.connect('a', 2)
    await world.start('b', { generation: 2 })
    await world.connect('b', 2)
    world.sandboxes.running.delete('a.2')
    await world.create('a', 36_000, { generation: 1 })
    await world.pass(5 * minute)
    const seen = world.actions().map(({ action, sessionId }) => `${action} ${sessionId}`)
    expect(seen.toSorted()).toEqual(['orphan.noted a', 'orphan.stopped a', 'sandbox.vanished a'])
  })

  test('an order that cannot be given is told', async () => {
    const world = new TestDeployment()
    world.check = () => Promise.reject(new Error('no such session'))
    await world.start('a')
    await world.connect('a')
    world.sandboxes.running.delete('a.1')
    await world.pass(5 * minute)
    const fields = { organisationId: orgId, provider: 'e2b', error: 'Error: no such session' }
    expect(world.logs).toContain(
      `warn Cannot tell a session that its sandbox is gone ${JSON.stringify(fields)}`,
    )
    expect((await world.usage()).concurrentSandboxes).toBe(0)
  })
})

describe('[FIRE11] the switch', () => {
  test('keeps no key that stands in its reason', async () => {
    const world = new TestDeployment()
    const key = `ghp_${'a1B2'.repeat(9)}`
    const { reason } = await world.org.api.firewall.setKillSwitch(
      { on: true, reason: `leaked ${key}` },
      'key',
    )
    expect(reason).toMatch(/^leaked \[secret-like:/)
    await world.pass(minute)
    expect(JSON.stringify(actions(world))).not.toContain(key)
  })

  test('goes past a session that is gone at once, and says which sandbox it could not stop', async () => {
    const world = new TestDeployment()
    for (const id of ['gone', 'held']) await world.start(id)
    world.halt = () => Promise.reject(new AppError('not_found', 'No such session'))
    const stop = world.sandboxes.stop.bind(world.sandboxes)
    world.sandboxes.stop = async (id, generation) => {
      if (id === 'held') throw new Error('away')
      await stop(id, generation)
    }
    await world.org.api.firewall.setKillSwitch({ on: true, reason: '' }, 'key')
    await world.pass(0)
    expect([...world.sandboxes.running.keys()]).toEqual(['held.1'])
    const fields = { organisationId: orgId, sessionId: 'held', error: 'Error: away' }
    expect(world.logs).toContain(
      `warn Cannot stop a sandbox, will try again ${JSON.stringify(fields)}`,
    )
  })

  test('that is turned on anew while it works begins anew at once', async () => {
    const world = new TestDeployment()
    await world.start('a')
    const { firewall } = world.org.api
    let halts = 0
    world.halt = async () => {
      halts += 1
      if (halts > 1) return
      await firewall.setKillSwitch({ on: false, reason: '' }, 'key')
      world.now += 1
      await firewall.setKillSwitch({ on: true, reason: '' }, 'key')
    }
    await firewall.setKillSwitch({ on: true, reason: '' }, 'key')
    await world.pass(10)
    expect(halts).toBe(2)
  })

  test('gives a session half a minute, and goes past one that stays silent', async () => {
    const world = new TestDeployment()
    await world.start('a')
    world.halt = async () => {}
    await world.org.api.firewall.setKillSwitch({ on: true, reason: '' }, 'key')
    await world.pass(29_000)
    expect(world.sandboxes.running.size).toBe(1)
    await world.pass(32_000)
    expect(world.sandboxes.running.size).toBe(0)
  })

  test('tells every session what to do, and one that cannot be told is tried again', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 100, sandboxesPerHour: 100 })
    for (let n = 0; n < 25; n += 1) await world.reserve(`s${n}`)
    const halted = new Map<string, number>()
    world.halt = async (id, generation, order) => {
      expect(order).toEqual({
        ...{ actor: 'kill-switch', saveMs: 20_000 },
        reason: 'The kill switch of the organisation is on: stop',
      })
      halted.set(id, (halted.get(id) ?? 0) + 1)
      if (id === 's3' && halted.get(id) === 1) throw new Error('away')
      await world.end(id, generation)
    }
    await world.org.api.firewall.setKillSwitch({ on: true, reason: 'stop' }, 'key')
    await world.pass(10_000)
    expect(halted.size).toBe(25)
    expect([halted.get('s3'), halted.get('s4')]).toEqual([2, 1])
    expect(world.logs).toContain(
      `warn A session did not hear of the kill switch ${JSON.stringify({
        ...{ organisationId: orgId, sessionId: 's3', error: 'Error: away' },
      })}`,
    )
    expect(world.deadlines()).not.toContain('kill')
  })
})

describe('[FIRE24] the end of the stack', () => {
  test('asks every session in all organisations, and gives no place for a minute after the last call', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 100, sandboxesPerHour: 100 })
    for (let n = 0; n < 25; n += 1) await world.reserve(`s${n}`)
    await world.organisation('org_b').api.sandboxes.reserve(world.claim('b'))
    const orders: string[] = []
    world.halt = async (id, generation, { reason, actor, saveMs }) => {
      orders.push(id)
      expect([reason, actor, saveMs]).toEqual(['Gantry is being stopped', 'shutdown', 30 * minute])
      if (id === 's7') throw new Error('away')
      if (id !== 'b') await world.end(id, generation)
    }
    expect(await world.deployment.api.deployment.putToSleep()).toBe(2)
    expect(orders).toHaveLength(26)
    expect(world.logs).toContain(
      `warn A session did not hear of the end ${JSON.stringify({ organisationId: orgId, sessionId: 's7', error: 'Error: away' })}`,
    )
    expect(await world.reserve('new')).toEqual({
      granted: false,
      retryAt: world.now + 15_000,
      reason: 'Cannot start a sandbox: Gantry is being stopped',
    })
    world.now += minute - 1
    expect((await world.reserve('new')).granted).toBe(false)
    world.now += 1
    expect((await world.reserve('new')).granted).toBe(true)
  })
})

describe('[FIRE12] the deployment tells its organisations', () => {
  test('again and again those that could not hear, ever more seldom, and each once', async () => {
    const world = new TestDeployment()
    const ids = Array.from({ length: 21 }, (_, n) => `org_${String(n).padStart(2, '0')}`)
    for (const id of ids) await world.organisation(id).api.sandboxes.reserve(world.claim(id))
    let isAway = true
    const heard: string[] = []
    for (const id of ids) {
      const { deployment } = world.organisation(id).api
      const hear = deployment.hear.bind(deployment)
      deployment.hear = async (news) => {
        if (isAway && id === 'org_20') throw new Error('away')
        heard.push(id)
        await hear(news)
      }
    }
    await world.deployment.api.firewall.setKillSwitch({ on: true, reason: 'x' }, 'operator')
    const tries = () => world.logs.filter((line) => line.includes('Cannot tell an org')).length
    await world.pass(0)
    expect([heard.length, tries()]).toEqual([20, 1])
    await world.pass(999)
    expect(tries()).toBe(1)
    await world.pass(1)
    expect(tries()).toBe(2)
    await world.pass(1999)
    expect(tries()).toBe(2)
    await world.pass(1)
    expect(tries()).toBe(3)
    isAway = false
    await world.pass(minute)
    expect(heard.toSorted()).toEqual(ids)
    expect(await world.deployment.api.deployment.killSwitch()).toEqual({
      ...{ on: true, reason: 'x', changedBy: 'operator' },
      ...{ changedAt: expect.any(Number), organisations: 21, untold: 0 },
    })
  })
})
