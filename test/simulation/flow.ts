import { check } from './invariants.ts'
import type { World } from './world/world.ts'

/** How the time of a world passes, and how what is on its way arrives. After each event the invariants are checked. */

/** What needs no more than this happens while messages travel. */
const travelMs = 250

/** So many events: what is on its way arrives in any order, and what is due soon happens in between. */
export async function runFor(
  world: World,
  pick: (below: number) => number,
  events: number,
  waitMs = travelMs,
): Promise<void> {
  for (let done = 0; done < events; done += 1) {
    const item = world.network.take(pick(1000))
    const timer = item ? null : world.clock.takeDue(world.clock.now + waitMs)
    if (!item && !timer) return
    await world.happen(() => (item ? item.arrive() : timer?.work()))
    check(world)
  }
}

/** Time passes, and nothing arrives meanwhile. */
export async function pass(world: World, ms: number): Promise<void> {
  const until = world.clock.now + ms
  for (let due = world.clock.takeDue(until); due; due = world.clock.takeDue(until)) {
    const { work } = due
    await world.happen(work)
    check(world)
  }
  world.clock.now = Math.max(world.clock.now, until)
}
