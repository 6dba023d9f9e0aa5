import { beforeEach, expect, test } from 'vitest'
import type { OrganisationApi } from '../../../src/core/organisation/organisation.ts'
import { TestDeployment } from '../../support/organisation.ts'

let world: TestDeployment
let budgets: OrganisationApi['budgets']
beforeEach(async () => {
  world = new TestDeployment()
  budgets = world.org.api.budgets
  await budgets.set(null, { toolCalls: 100 }, 'key')
  await budgets.set('shop', { toolCalls: 30 }, 'key')
})
const amounts = (toolCalls: number) => ({ wallMs: 0, toolCalls, tokens: 0, moneyMicros: 0 })
const take = (sessionId: string, number: number, spent: number, project = 'shop') =>
  budgets.take({ sessionId, project, number, spent: amounts(spent) })
const calls = async (project: string | null) => {
  const { used, reserved } = await budgets.view(project)
  return [used.toolCalls, reserved.toolCalls]
}

test('[BUD8] what a session has used counts for the organisation and for its project, told twice once', async () => {
  await take('one', 1, 0)
  expect([await calls(null), await calls('shop')]).toEqual([
    [0, 20],
    [0, 20],
  ])
  await take('two', 1, 0, 'other')
  for (const _ of ['first', 'again']) await take('one', 2, 15)
  expect([await calls(null), await calls('shop'), await calls('other')]).toEqual([
    [15, 35],
    [15, 15],
    [0, 20],
  ])
  await budgets.giveBack('one', 2, amounts(4))
  await budgets.giveBack('one', 2, amounts(4))
  expect([await calls(null), await calls('shop')]).toEqual([
    [19, 20],
    [19, 0],
  ])
})

test('[BUD8] an answer that was lost on its way: what was used since counts as well, of this session alone', async () => {
  await take('one', 1, 0)
  await take('two', 1, 0)
  await take('one', 2, 5)
  // It has not heard of the second, has gone on, and asks again.
  await take('one', 2, 8)
  await take('one', 2, 8)
  expect((await calls('shop'))[0]).toBe(8)
  // Nor has it when it ends.
  await budgets.giveBack('one', 1, amounts(9))
  expect((await calls('shop'))[0]).toBe(9)
  expect(await take('two', 2, 1)).toMatchObject({ granted: { toolCalls: expect.any(Number) } })
  expect((await calls('shop'))[0]).toBe(10)
})

test('[BUD8] a slice is as large as what the session has reserved, up to a most', async () => {
  const reserve = async (sessionId: string, tokens: number, moneyMicros: number) => {
    const claim = { sessionId, project: 'free', number: 1, spent: amounts(0) }
    const { granted } = await budgets.take({ ...claim, reserved: { tokens, moneyMicros } })
    return [granted?.tokens, granted?.moneyMicros]
  }
  expect(await reserve('few', 5, 7)).toEqual([100_000, 250_000])
  expect(await reserve('many', 300_000, 400_000)).toEqual([300_000, 400_000])
  expect(await reserve('mad', 1e15, 1e15)).toEqual([1e9, 1e9])
})

test('[BUD12] a correction is made once for its key, and says what was before and after', async () => {
  await take('one', 1, 0)
  await budgets.giveBack('one', 1, amounts(12))
  const sent = { project: 'shop', used: { toolCalls: 2 }, reason: 'counted twice' }
  const correct = (key: string, more = {}) => budgets.correct({ ...sent, ...more }, 'key_1', key)
  const first = await correct('a')
  expect(first.correction).toMatchObject({
    ...{ actor: 'key_1', reason: 'counted twice' },
    ...{ before: { toolCalls: 12 }, after: { toolCalls: 2 } },
  })
  await take('two', 1, 0)
  await budgets.giveBack('two', 1, amounts(3))
  expect((await correct('a')).correction).toEqual(first.correction)
  expect((await calls('shop'))[0]).toBe(5)
  await expect(correct('a', { reason: 'other' })).rejects.toMatchObject({ code: 'key_conflict' })
  await correct('b')
  expect((await calls('shop'))[0]).toBe(2)
})

test('[BUD12] an action tells whose budget was corrected, what changed, and why', async () => {
  await take('one', 1, 0)
  await budgets.giveBack('one', 1, amounts(12))
  const reasons = async () => {
    await world.pass(10_000)
    return world.actions().map(({ action, actor, reason }) => `${action} ${actor} ${reason}`)
  }
  await budgets.correct({ project: 'shop', used: { toolCalls: 2 }, reason: 'twice' }, 'key_1', null)
  await budgets.correct({ used: { toolCalls: 12 }, reason: 'looked' }, 'key_2', null)
  await budgets.correct({ used: { tokens: 5, moneyUsd: 1.5 }, reason: 'late' }, 'key_3', null)
  expect(await reasons()).toEqual([
    'budget.corrected key_1 project shop: toolCalls 12 to 2: twice',
    'budget.corrected key_2 organisation: no change: looked',
    'budget.corrected key_3 organisation: tokens 0 to 5, moneyUsd 0 to 1.5: late',
  ])
  expect(await budgets.view(null)).toMatchObject({
    project: null,
    used: { wallSeconds: 0, toolCalls: 12, tokens: 5, moneyUsd: 1.5 },
  })
})

test('[BUD11] what cannot be true counts for nothing, measure by measure, and is told', async () => {
  await take('one', 1, 0)
  const claim = { sessionId: 'one', project: 'shop', number: 2 }
  await budgets.take({ ...claim, spent: { ...amounts(3), tokens: 1e12 + 1, wallMs: Infinity } })
  await budgets.giveBack('one', 2, { ...amounts(1), tokens: 1e12, moneyMicros: NaN })
  await world.pass(10_000)
  expect(world.actions()).toMatchObject([
    {
      ...{ action: 'budget.implausible', actor: 'budget', sessionId: null },
      reason: 'Session one says that it used Infinity wallMs, 1000000000001 tokens: not counted',
    },
    { reason: 'Session one says that it used NaN moneyMicros: not counted' },
  ])
  expect((await budgets.view('shop')).used).toEqual({
    ...{ wallSeconds: 0, toolCalls: 4, tokens: 1e12, moneyUsd: 0 },
  })
})

test('[BUD8] a grant warns of each budget of which 80 % are used, by name and in its own unit', async () => {
  await budgets.set(null, { wallSeconds: 1000, moneyUsd: 10 }, 'key')
  await budgets.set('shop', { toolCalls: 100, wallSeconds: 2000 }, 'key')
  await take('one', 1, 0)
  const answer = await budgets.take({
    ...{ sessionId: 'one', project: 'shop', number: 2 },
    spent: { wallMs: 800_000, toolCalls: 79, tokens: 0, moneyMicros: 8_000_000 },
  })
  expect(answer).toMatchObject({
    granted: { wallMs: 200_000, toolCalls: 20, tokens: 100_000, moneyMicros: 250_000 },
    warnings: [
      { measure: 'wallSeconds (organisation)', used: 800, limit: 1000 },
      { measure: 'moneyUsd (organisation)', used: 8, limit: 10 },
    ],
  })
  const next = await budgets.take({
    ...{ sessionId: 'one', project: 'shop', number: 3 },
    spent: { wallMs: 0, toolCalls: 1, tokens: 0, moneyMicros: 1_800_000 },
  })
  expect(next).toMatchObject({
    granted: { moneyMicros: 200_000 },
    warnings: [{}, {}, { measure: 'toolCalls (project shop)', used: 80, limit: 100 }],
  })
})
