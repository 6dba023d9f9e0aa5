import { TestSession } from '../test/support/session.ts'
import type { Row } from './table.ts'

const dayMs = 24 * 60 * 60_000

/** What a session costs in a day in which nobody asks anything of it. Counted over its ports, on a clock that is moved. */
export async function measureIdle(): Promise<Row[]> {
  const bare = new TestSession()
  await bare.create()
  const kept = new TestSession()
  await kept.create({ sandbox: 'local', idleTimeoutSeconds: null })
  await kept.pass(0)
  await kept.connect()
  return [
    ...(await countDay('without a sandbox', bare)),
    ...(await countDay('with a sandbox that never sleeps', kept)),
  ]
}

async function countDay(name: string, session: TestSession): Promise<Row[]> {
  // What its creation has left to do.
  await session.pass(2 * 60 * 60_000)
  const before = countsOf(session)
  const alarms = await alarmsIn(session, dayMs)
  const after = countsOf(session)
  const row = (what: string, ours: number): Row => ({
    measure: `idle session ${name}, ${what} in a day`,
    ours,
    unit: '',
  })
  return [
    row('alarms', alarms),
    row('requests', after.requests - before.requests),
    row('rows written', after.rows - before.rows),
  ]
}

/** To its provider and to its ledger. */
function countsOf(session: TestSession): { requests: number; rows: number } {
  const [row] = session.sql.all<{ n: number }>('select total_changes() as n')
  return { requests: session.sandboxes.orders.length + session.ledger.appends, rows: row?.n ?? 0 }
}

async function alarmsIn(session: TestSession, ms: number): Promise<number> {
  const until = session.now + ms
  let alarms = 0
  while (session.armedAt !== null && session.armedAt <= until) {
    alarms += 1
    await session.pass(Math.max(0, session.armedAt - session.now))
  }
  return alarms
}
