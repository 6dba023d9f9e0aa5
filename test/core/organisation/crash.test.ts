import { expect, test, vi } from 'vitest'
import { deploymentId } from '../../../src/core/organisation/record/ports.ts'
import { hour, orgId, TestDeployment } from '../../support/organisation.ts'

// Many short lives.
vi.setConfig({ testTimeout: 120_000 })

/** A life with everything in it: places, an orphan, one that vanished, the switches, the ledger. */
async function live(world: TestDeployment): Promise<void> {
  for (const id of ['a', 'b', 'c', 'd']) {
    const reservation = await world.ask(() => world.reserve(id))
    if (reservation.granted) await world.create(id, reservation.lifetimeSeconds)
    await world.ask(() => world.connect(id))
  }
  await world.create('stray', 36_000)
  world.sandboxes.running.delete('b.1')
  await world.sandboxes.stop('c', 1)
  await world.ask(() => world.end('c'))
  await world.pass(20 * 60_000)
  await world.ask(() => world.org.api.firewall.setKillSwitch({ on: true, reason: 'x' }, 'key'))
  await world.pass(5 * 60_000)
  await world.ask(() => world.org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'key'))
  const again = await world.ask(() => world.reserve('e'))
  if (again.granted) await world.create('e', again.lifetimeSeconds)
  await world.ask(() =>
    world.deployment.api.firewall.setKillSwitch({ on: true, reason: 'y' }, 'operator'),
  )
  await world.pass(5 * 60_000)
  await world.pass(2 * hour)
}

async function outcomeOf(world: TestDeployment) {
  const rows = [...world.ledger().rows.values()].map(({ kind, payload }) => ({
    kind,
    ...(JSON.parse(payload) as { sessionId: string; outcome: string | null; action: string }),
  }))
  const outcomes = new Map<string, string | null>()
  for (const { kind, sessionId, outcome } of rows)
    if (kind === 'sandbox_reservation') outcomes.set(sessionId, outcome)
  // Who has lost the provider's answer finds the orphan gone, and says no more than that.
  const actions = rows.flatMap(({ action, sessionId }) =>
    action ? [`${action.replace(/orphan\.(stopped|gone)/, 'orphan.over')} ${sessionId}`] : [],
  )
  return {
    running: [...world.sandboxes.running.keys()],
    outcomes: Object.fromEntries(outcomes),
    actions: actions.toSorted(),
    deadlines: [...world.deadlines(orgId), ...world.deadlines(deploymentId)],
    killed: (await world.org.api.firewall.limits(null)).killed,
  }
}

const undisturbed = new TestDeployment({ reconcileSeconds: 300 })
await live(undisturbed)
const expected = await outcomeOf(undisturbed)
const steps = undisturbed.calls.length

test('the life has all of it', () => {
  expect(expected).toEqual({
    running: [],
    // Who reports first, the session or the switch itself, is not the point here: both are the end.
    outcomes: {
      a: 'stopped',
      b: 'vanished',
      c: 'stopped',
      d: 'stopped',
      e: 'stopped',
      stray: 'orphan',
    },
    actions: [
      'deployment-switch.on null',
      'kill-switch.off null',
      'kill-switch.on null',
      'orphan.noted stray',
      'orphan.over stray',
      'sandbox.killed a',
      'sandbox.killed d',
      'sandbox.killed e',
      'sandbox.vanished b',
    ],
    deadlines: [],
    killed: true,
  })
  expect(steps).toBeGreaterThan(25)
})

for (const when of ['before', 'after'] as const) {
  test(`[FIRE18] a crash ${when} any word with the outside changes nothing of the outcome`, async () => {
    for (let step = 0; step < steps; step++) {
      const world = new TestDeployment({ reconcileSeconds: 300 })
      let count = 0
      world[when] = (_, id) => {
        if (count++ === step) world.crash(id)
      }
      await live(world)
      expect(await outcomeOf(world), `step ${step}: ${world.calls[step]}`).toEqual(expected)
    }
  })

  test(`[FIRE18] a failure ${when} any word with the outside changes nothing of the outcome`, async () => {
    for (let step = 0; step < steps; step++) {
      // Whoever asks for a place is told to ask again; that is not what is looked at here.
      if (undisturbed.calls[step] === 'organisation.admit') continue
      const world = new TestDeployment({ reconcileSeconds: 300 })
      let count = 0
      world[when] = () => {
        if (count++ === step) throw new Error('away')
      }
      await live(world)
      expect(await outcomeOf(world), `step ${step}: ${world.calls[step]}`).toEqual(expected)
    }
  })
}
