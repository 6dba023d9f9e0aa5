import { beforeEach, describe, expect, test } from 'vitest'
import type { BudgetAnswer } from '../../../../src/core/organisation/record/api.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
let takes: ((answer: BudgetAnswer) => void)[]

const slice = (toolCalls: number): BudgetAnswer => ({
  granted: { wallMs: 1e9, toolCalls, tokens: 1e9, moneyMicros: 1e9 },
  warnings: [],
})

beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
  takes = []
  world.organisation.shared = {
    take: () => new Promise((resolve) => takes.push(resolve)),
    giveBack: async () => {},
  }
  world.sql.run(`update slice set granted = '{}'`)
})

describe('[BUD8] the answer of the organisation', () => {
  test('that several have waited for is used by those that it is enough for; the others ask again', async () => {
    const executed = [world.execute(runId), world.execute(runId), world.execute(runId)]
    for (let slices = 1; slices <= 3; slices += 1) {
      await world.settle()
      expect([takes.length, world.executes().length]).toEqual([slices, slices - 1])
      takes.at(-1)?.(slice(1))
    }
    await Promise.all(executed)
    expect(world.executes()).toHaveLength(3)
  })

  test('[BUD7] that refuses a session which was closed meanwhile leaves its budget as it was', async () => {
    const executed = world.execute(runId).catch((error: { code: string }) => error.code)
    await world.settle()
    await world.actor.api.self.close(testCaller, 'x')
    takes[0]?.({ granted: null, reason: 'Nothing is left' })
    expect(await executed).toBe('session_closed')
    expect((await world.actor.api.budget.view(testCaller)).spent).toEqual([])
  })
})
