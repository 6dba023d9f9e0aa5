import { expect, test } from 'vitest'
import { keepCreationsMs } from '../../../src/core/organisation/record/api.ts'
import { TestDeployment } from '../../support/organisation.ts'

test('[SES] a creation key stands for one session for a day', async () => {
  const world = new TestDeployment()
  const organisation = world.org
  expect(await organisation.api.creations.claim('k', 'body', 'ses_1')).toBe('ses_1')
  world.now += keepCreationsMs
  expect(await organisation.api.creations.claim('k', 'body', 'ses_2')).toBe('ses_1')
  // A new instance over the same database: the object was evicted.
  world.crash()
  const again = world.org
  expect(await again.api.creations.claim('k', 'body', 'ses_3')).toBe('ses_1')
  await expect(again.api.creations.claim('k', 'other', 'ses_3')).rejects.toMatchObject({
    code: 'key_conflict',
  })
  world.now += 1
  expect(await again.api.creations.claim('k', 'other', 'ses_3')).toBe('ses_3')
})

test('[TOOL5] an automation run belongs to the session that claimed it first, until that is deleted', async () => {
  const organisation = new TestDeployment().org
  await organisation.api.creations.claimRun('run', 'ses_1')
  await organisation.api.creations.claimRun('run', 'ses_1')
  const refused = {
    code: 'wrong_state',
    details: [{ path: 'automationRunId', message: 'Taken' }],
  }
  await expect(organisation.api.creations.claimRun('run', 'ses_2')).rejects.toMatchObject(refused)
  await organisation.api.creations.releaseRun('run', 'ses_2')
  await expect(organisation.api.creations.claimRun('run', 'ses_2')).rejects.toMatchObject(refused)
  await organisation.api.creations.end('ses_1')
  await organisation.api.creations.claimRun('run', 'ses_2')
})

test('[SES6] of an erased session an organisation keeps its bills, and its creation key for a day', async () => {
  const world = new TestDeployment()
  const { org } = world
  const sessionId = 'ses_1'
  const left = () => {
    const tables = world
      .sql()
      .all<{ name: string }>(
        `select m.name from sqlite_master m join pragma_table_info(m.name) c
         where m.type = 'table' and c.name = 'session_id'`,
      )
      .map(({ name }) => name)
    return tables.filter(
      (table) =>
        world.sql().all(`select 1 from ${table} where session_id = ?`, sessionId).length > 0,
    )
  }
  await org.api.creations.claim('k', 'body', sessionId)
  await org.api.creations.claimRun('run', sessionId)
  const spent = { wallMs: 0, toolCalls: 0, tokens: 0, moneyMicros: 0 }
  await org.api.budgets.set(null, { toolCalls: 100 }, 'key')
  await org.api.budgets.take({ sessionId, project: 'default', number: 1, spent })
  await world.start(sessionId)
  expect(left().toSorted()).toEqual(['creations', 'reservations', 'run_claims', 'slices'])
  // As a session does while it is erased.
  await org.api.budgets.giveBack(sessionId, 1, spent)
  await world.end(sessionId)
  for (let times = 0; times < 2; times += 1) await org.api.creations.end(sessionId)
  expect(left().toSorted()).toEqual(['creations', 'reservations'])
  await expect(org.api.creations.claim('k', 'body', 'ses_2')).rejects.toMatchObject({
    code: 'wrong_state',
  })
  world.now += keepCreationsMs + 1
  expect(await org.api.creations.claim('k', 'body', 'ses_2')).toBe('ses_2')
  expect(left()).toEqual(['reservations'])
})

test('[OUT4] an answer that comes late does not make unsent what the organisation has sent meanwhile', async () => {
  const world = new TestDeployment()
  const { org } = world
  const ledger = world.ledger()
  await world.start('ses_1')
  await world.pass(10_000)
  const append = ledger.append.bind(ledger)
  let answer = () => {}
  ledger.append = async (input) => {
    const given = await append(input)
    if (input.rows.length === 0) await new Promise<void>((resolve) => (answer = resolve))
    return given
  }
  const mark = () => world.sql().all<{ watermark: number }>('select watermark from outbox_mark')
  const asking = org.api.letters.list({ limit: 9, after: null })
  await world.start('ses_2')
  await world.pass(10_000)
  const before = mark()
  answer()
  await asking
  expect(mark()).toEqual(before)
})
