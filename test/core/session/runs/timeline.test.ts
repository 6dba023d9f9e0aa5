import { describe, expect, test } from 'vitest'
import { RunCreate } from '../../../../src/contract/run.ts'
import {
  timelineHash,
  firstHash,
  headText,
  type TimelineRow,
} from '../../../../src/core/session/runs/timeline.ts'
import { type RecordedHead, TimelineChecker } from '../../../../src/core/session/runs/verify.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

const runId = 'run_1'
const sign = (text: string) => `signed(${text})`
const isSigned = (text: string, signature: string) => signature === sign(text)

function chain(datas: string[]): TimelineRow[] {
  let previous_hash = firstHash(runId)
  return datas.map((data, index) => {
    const entry = { seq: index + 1, at: 1000 + index, kind: 'tool.requested', data, previous_hash }
    const hash = timelineHash(entry)
    previous_hash = hash
    return { ...entry, hash }
  })
}
const headOf = (rows: TimelineRow[]): RecordedHead => {
  const { seq, hash } = rows.at(-1) as TimelineRow
  return { seq, hash, at: 5, signature: sign(headText(runId, seq, hash)) }
}
const rows = chain(['{"a":1}', '{"a":2}', '{"a":3}', '{"a":4}'])
const head = headOf(rows)
function check(changed: TimelineRow[], recorded: RecordedHead | null = head, run = runId) {
  const checker = new TimelineChecker(run, recorded)
  for (const row of changed) checker.add(row)
  return checker.result(isSigned)
}
const with2 = (change: Partial<TimelineRow>) =>
  rows.map((row) => (row.seq === 2 ? { ...row, ...change } : row))

test('[RUN5] an untouched timeline verifies', () => {
  expect(check(rows)).toEqual({
    ok: true,
    entries: 4,
    problems: [],
    head: { seq: 4, hash: head.hash, recordedAt: 5 },
  })
})

describe('[RUN5] a changed entry is named', () => {
  const flips: [string, Partial<TimelineRow>][] = [
    ['one byte of its data', { data: '{"a":9}' }],
    ['its time', { at: 1 }],
    ['its kind', { kind: 'tool.failed' }],
  ]
  for (const [what, change] of flips) {
    test(what, () => {
      const { ok, problems } = check(with2(change))
      expect([ok, problems.map(({ seq }) => seq)]).toEqual([false, [2]])
    })
  }

  test('its hash with its data: the next one does not follow', () => {
    const changed = with2({ data: '{"a":9}' }).map((row) =>
      row.seq === 2 ? { ...row, hash: timelineHash(row) } : row,
    )
    expect(check(changed).problems.map(({ seq }) => seq)).toEqual([3])
  })
})

test('[RUN5] two entries that change places are named', () => {
  const swapped = [rows[0], rows[2], rows[1], rows[3]] as TimelineRow[]
  expect(check(swapped).problems.map(({ seq }) => seq)).toContain(3)
})

test('[RUN5] a removed entry is noticed at the one after it', () => {
  expect(check(rows.filter(({ seq }) => seq !== 2)).problems[0]?.seq).toBe(3)
})

test('[RUN5] a cut end is noticed by the signed head', () => {
  expect(check(rows.slice(0, 2)).problems).toEqual([
    { seq: null, problem: 'The timeline ends before entry 4 of its signed head' },
  ])
})

test('[RUN5] a full rewrite with fresh hashes is noticed by the signed head', () => {
  const rewritten = chain(['{"a":1}', '{"a":2}', '{"a":3}', '{"a":"forged"}'])
  expect(check(rewritten, null).ok).toBe(true)
  expect(check(rewritten).problems).toEqual([
    { seq: 4, problem: 'Differs from the signed head in the ledger' },
  ])
})

test('[RUN5] a head that the deployment has not signed is no head', () => {
  const forged = { ...headOf(rows), signature: 'signed(by me)' }
  expect(check(rows, forged).problems).toEqual([
    { seq: null, problem: 'The signature of the head in the ledger is not valid' },
  ])
})

test('[RUN5] another run cannot lend its entries', () => {
  expect(check(rows, null, 'run_2').problems[0]?.seq).toBe(1)
})

describe('[RUN18] a timeline that is larger than a page', () => {
  async function large() {
    const session = new TestSession()
    await session.create()
    const run = await session.actor.api.runs.create(
      testCaller,
      RunCreate.parse({ intent: 'x' }),
      null,
    )
    const data = { text: 'x'.repeat(60_000) }
    for (let n = 0; n < 90; n += 1)
      await session.actor.api.runs.addEvent(testCaller, run.id, { kind: 'phase.started', data })
    await session.pass(10_000)
    return { session, run }
  }
  /** The most that one statement has read, in characters. */
  function watchReads(session: TestSession) {
    const all = session.sql.all.bind(session.sql)
    const reads: number[] = []
    session.sql.all = <T extends object>(...args: Parameters<typeof all>) => {
      const rows = all<T>(...args)
      reads.push(JSON.stringify(rows).length)
      return rows
    }
    return () => Math.max(...reads)
  }

  test('is verified page by page, whole', async () => {
    const { session, run } = await large()
    const most = watchReads(session)
    const checked = await session.actor.api.runs.verify(testCaller, run.id)
    expect(checked).toMatchObject({ ok: true, entries: 91 })
    expect(most()).toBeLessThan(3 * 1024 * 1024)
  })

  test('an entry that was changed is named wherever it is', async () => {
    const { session, run } = await large()
    for (const seq of [2, 80])
      session.sql.run(`update run_events set data = '{}' where run_id = ? and seq = ?`, run.id, seq)
    const { problems } = await session.actor.api.runs.verify(testCaller, run.id)
    expect(problems.map(({ seq }) => seq)).toEqual([2, 80])
  })

  test('entries that come meanwhile are for the next look', async () => {
    const { session, run } = await large()
    const checking = session.actor.api.runs.verify(testCaller, run.id)
    const data = { text: 'later' }
    await session.actor.api.runs.addEvent(testCaller, run.id, { kind: 'phase.started', data })
    expect((await checking).ok).toBe(true)
  })
})
