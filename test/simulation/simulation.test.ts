import { expect, test } from 'vitest'
import { seedsOf } from '../support/random.ts'
import { type Failure, runSchedule } from './schedule.ts'
import { describe as describeFound, search } from './search.ts'
import { shrink } from './shrink.ts'
import { scheduleOf, type Step } from './steps.ts'
import type { World } from './world/world.ts'

test(
  '[TEST4] every rule holds after every event of many schedules',
  { timeout: 1_200_000 },
  async () => {
    const found = await search(seedsOf(40, 3000))
    expect(found && describeFound(found)).toBeNull()
  },
)

test('[TEST4] a seed does the same to the byte whenever it is run', async () => {
  const [seed = 1] = seedsOf(1, 1)
  const tell = async () => {
    let told: unknown
    const see = (world: World) => {
      const end = world.end.bind(world)
      world.end = () => {
        const events = [...world.sessions.values()].map(({ database }) =>
          database.isMade ? database.sql.all('select * from events') : [],
        )
        told = [world.events, world.clock.now, world.logs, events]
        end()
      }
    }
    await runSchedule(scheduleOf(seed), see)
    return told
  }
  expect(await tell()).toEqual(await tell())
})

test('[TEST4] of a schedule that fails only those steps are left that it needs', async () => {
  const steps = scheduleOf(7).map((step, index) => ({ ...step, n: index }))
  const needed = [3, 9, 14]
  const failure: Failure = { rule: 'broken', detail: '', at: steps.length }
  const run = async (left: readonly Step[]) =>
    needed.every((n) => left.some((step) => step.n === n)) ? { ...failure, at: left.length } : null
  const shortest = await shrink(steps, failure, run)
  expect(shortest.steps.map(({ n }) => n)).toEqual(needed)
})
