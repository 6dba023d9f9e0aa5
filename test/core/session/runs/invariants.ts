import { expect } from 'vitest'
import { spentReasons } from '../../../../src/core/session/budget/spending.ts'
import type { RunWorld } from '../../../support/run-world.ts'

interface Run {
  id: string
  status: string
  waits_for: string
  completed_at: number | null
}

/** What holds after every step, whatever the steps were. */
export function check(world: RunWorld, begun: ReadonlySet<string>): void {
  checkRuns(world)
  checkApprovals(world)
  checkAttempts(world, begun)
  checkBudget(world)
}

const ids = (rows: { id: string }[]) => rows.map(({ id }) => id).toSorted()
const idsOf = (world: RunWorld, query: string, ...values: string[]) =>
  ids(world.sql.all<{ id: string }>(`select id from ${query}`, ...values))
const count = (world: RunWorld, query: string) =>
  world.sql.all<{ n: number }>(`select count(*) as n from ${query}`)[0]?.n ?? 0

/** A run waits exactly for what is really open, and needs a person exactly while it waits. */
function checkRuns(world: RunWorld): void {
  const isSpent = spentReasons(world.sql, world.now).length > 0
  for (const run of world.rowsOf<Run>('runs')) {
    const waits = (JSON.parse(run.waits_for) as { what: string }[]).map(({ what }) => what)
    const isOpen = run.completed_at === null
    expect(waits.length > 0, `${run.id} waits and is ${run.status}`).toBe(
      run.status === 'needs-human',
    )
    expect(['completed', 'failed', 'blocked', 'cancelled'].includes(run.status)).toBe(!isOpen)
    const pending = idsOf(world, `approvals where run_id = ? and state = 'pending'`, run.id)
    const suspect = idsOf(
      world,
      `attempts where run_id = ? and status = 'reserved' and suspect_since is not null`,
      run.id,
    )
    if (!isOpen) {
      expect(pending, `${run.id} has ended with nothing pending`).toEqual([])
      const turns = `turns where run_id = '${run.id}' and state`
      expect(count(world, `${turns} = 'queued'`), 'no queued turn in an ended run').toBe(0)
      expect(count(world, `${turns} = 'running' and abort_requested = 0`)).toBe(0)
      continue
    }
    expect(waits.filter((what) => what !== 'budget').toSorted()).toEqual(
      [...pending, ...suspect].toSorted(),
    )
    expect(waits.includes('budget'), 'an open run waits for a spent budget').toBe(isSpent)
  }
  const events = world.sql.all<{ run_id: string; n: number; last: number }>(
    'select run_id, count(*) as n, max(seq) as last from run_events group by 1',
  )
  for (const { n, last } of events) expect(n, 'a timeline without gaps').toBe(last)
}

function checkApprovals(world: RunWorld): void {
  const twice = world.sql.all(
    `select data ->> 'approvalId' as id, count(*) as n from events where kind = 'approval.resolved'
     group by 1 having n > 1`,
  )
  expect(twice, 'an approval is resolved once').toEqual([])
  expect(count(world, `events where kind = 'approval.resolved'`)).toBe(
    count(world, `approvals where state <> 'pending'`),
  )
  const deadlines = world.deadlines()
  const [first] = world.sql.all<{ at: number | null }>(
    `select min(deadline_at) as at from approvals where state = 'pending'`,
  )
  if (first?.at == null) expect(deadlines, 'no deadline without one').not.toHaveProperty('approval')
  else expect(deadlines['approval'], 'the first deadline is armed').toBeLessThanOrEqual(first.at)
  // An open question waits for a person or for a budget, and not for ever.
  const waiting = count(world, `asks where state = 'open' and input <> 'null'`)
  expect(count(world, `asks where state = 'open'`)).toBe(
    waiting + count(world, `approvals where state = 'pending' and kind = 'gate'`),
  )
  expect('budget.ask' in deadlines).toBe(waiting > 0)
}

function checkAttempts(world: RunWorld, begun: ReadonlySet<string>): void {
  const double = world.sql.all(
    `select operation_id from attempts where status = 'reserved' group by 1 having count(*) > 1`,
  )
  expect(double, 'one reservation at a time').toEqual([])
  const dispatched = idsOf(world, 'attempts where dispatched = 1')
  expect(idsOf(world, `commands where kind = 'execute'`), 'one command per attempt').toEqual(
    dispatched,
  )
  for (const id of begun) expect(dispatched, 'nothing runs that was not sent').toContain(id)
  const moving = idsOf(
    world,
    `attempts where status = 'reserved' and dispatched = 1 and suspect_since is null`,
  )
  const sent = idsOf(world, `commands where kind = 'execute' and state = 'open'`)
  for (const id of moving) expect(sent, 'what is under way is still to be answered').toContain(id)
  const watched = Object.keys(world.deadlines())
    .filter((name) => name.startsWith('attempt:'))
    .map((name) => name.slice('attempt:'.length))
  expect(watched.toSorted(), 'what is under way has a deadline').toEqual(moving)
  const finals = world.sql.all(
    `select data ->> 'attemptId' as id, count(*) as n from run_events where kind = 'operation-execution'
       and data ->> 'status' in ('succeeded', 'failed', 'abandoned') group by 1 having n > 1`,
  )
  expect(finals, 'an attempt ends once').toEqual([])
  const after = world.sql.all(
    `select a.id from attempts a join attempts b on a.operation_id = b.operation_id and b.sequence > a.sequence
     where a.status in ('succeeded', 'reserved')`,
  )
  expect(after, 'nothing follows a success or a reservation').toEqual([])
}

function checkBudget(world: RunWorld): void {
  const used = world.rowsOf<{ tool_calls: number; shared_reason: string; blocked: number }>(
    'budget',
  )
  const calls =
    count(world, `asks where decision = 'allow'`) +
    count(world, `approvals where state = 'pending' and kind = 'gate'`) +
    count(world, 'attempts where dispatched = 1')
  expect(used[0]?.tool_calls, 'every call is counted once').toBe(calls)
  const isOpen = count(world, `session where status = 'open'`) > 0
  if (isOpen && used[0]?.shared_reason !== '')
    expect(world.deadlines(), 'a refusal is asked about again').toHaveProperty('slice')
  if (used[0]?.blocked === 1)
    expect(world.deadlines(), 'time stands while nothing may run').not.toHaveProperty('budget')
}
