import { beforeEach, describe, expect, test } from 'vitest'
import {
  LedgerActor,
  ledgerShard,
  ledgerShards,
  ledgerStatements,
} from '../../../src/core/ledger/ledger.ts'
import type { Db, OutboxRow } from '../../../src/core/ports.ts'
import { useLibsql } from '../../support/libsql.ts'
import { memorySql } from '../../support/sql.ts'

const libsql = useLibsql()
const organisationId = 'org_1'
let sessionId: string
let sessions = 0
let ledger: LedgerActor
let writes: number
let away: boolean
/** It can be read, and not be written. */
let writesAway: boolean

beforeEach(() => {
  sessionId = `ses_${++sessions}`
  writes = 0
  away = writesAway = false
  ledger = new LedgerActor({ sql: memorySql(), db: watched, now: () => 7, log: () => {} })
})

/** The real server, with its writes counted; or away. */
function watched(): Db {
  const db = libsql.db()
  const gone = () => Object.assign(new Error('away'), { code: 'storage_unavailable' })
  return {
    all: (...args) => (away ? Promise.reject(gone()) : db.all(...args)),
    batch: async (statements) => {
      if (away || writesAway) throw gone()
      await db.batch(statements)
      writes += 1
    },
  }
}

const call = (seq: number, id: string, status: string, more: object = {}): OutboxRow => ({
  seq,
  kind: 'call',
  createdAt: seq,
  payload: JSON.stringify({
    tool: 'noop',
    toolCallId: id,
    operationId: `op_${id}`,
    generation: 1,
    status,
    attempts: 1,
    input: '{}',
    output: status === 'settled' ? '{"success":true}' : null,
    error: null,
    durationMs: null,
    startedAt: 1,
    completedAt: null,
    ...more,
  }),
})
/** libSQL refuses it: `input` may not be null. */
const bad = (seq: number, id: string) => call(seq, id, 'settled', { input: null })
const append = async (after: number, rows: OutboxRow[], id = sessionId) =>
  (await ledger.append({ sessionId: id, organisationId, after, rows })).stored
const stored = (id = sessionId) =>
  libsql
    .db()
    .all<{ tool_call_id: string; status: string; outbox_seq: number }>(
      'select tool_call_id, status, outbox_seq from session_tool_invocations where session_id = ? order by outbox_seq',
      id,
    )
    .then((rows) => rows.map((row) => `${row.tool_call_id} ${row.status} ${row.outbox_seq}`))
const mark = async (id = sessionId) =>
  (
    await libsql
      .db()
      .all<{ seq: number }>('select seq from outbox_watermarks where session_id = ?', id)
  )[0]?.seq

describe('writing', () => {
  test('[OUT1] rows arrive in order with their watermark', async () => {
    expect(
      await append(0, [call(1, 'a', 'pending'), call(2, 'a', 'settled'), call(3, 'b', 'pending')]),
    ).toBe(3)
    expect([await stored(), await mark()]).toEqual([['a settled 2', 'b pending 3'], 3])
  })

  test('what arrives while a batch is on its way joins the next one', async () => {
    const ids = Array.from({ length: 20 }, (_, n) => `${sessionId}_${n}`)
    const answers = await Promise.all(ids.map((id) => append(0, [call(1, 'a', 'settled')], id)))
    expect(answers).toEqual(ids.map(() => 1))
    expect(writes).toBe(2)
  })

  test('[OUT14] batches of one shard begin 100 ms apart, and what comes meanwhile travels together', async () => {
    let now = 1000
    const pauses: number[] = []
    const sleep = async (ms: number) => {
      pauses.push(ms)
      now += ms
      if (pauses.length === 2) throw new Error('no timers')
    }
    ledger = new LedgerActor({
      sql: memorySql(),
      db: watched,
      now: () => now,
      log: () => {},
      sleep,
    })
    const ids = Array.from({ length: 4 }, (_, n) => `${sessionId}_${n}`)
    await append(0, [call(1, 'a', 'settled')])
    expect([pauses, writes]).toEqual([[], 1])
    now += 30
    await Promise.all(ids.map((id) => append(0, [call(1, 'a', 'settled')], id)))
    expect([pauses, writes]).toEqual([[70], 2])
    // A pause that fails holds nobody up.
    now += 99
    expect(await append(1, [call(2, 'b', 'settled')])).toBe(2)
    expect(pauses).toEqual([70, 1])
    now += 100
    await append(2, [call(3, 'c', 'settled')])
    // Nor does a clock that was put back.
    now -= 500
    await append(3, [call(4, 'd', 'settled')])
    expect([pauses, writes]).toEqual([[70, 1], 5])
  })

  test('[OUT1] calls of many sessions in one batch keep their owners, beside rows of other kinds', async () => {
    const [erased, other] = [`${sessionId}_erased`, `${sessionId}_other`]
    await append(0, [{ seq: 1, kind: 'session.erased', payload: '{}', createdAt: 1 }], erased)
    const first = append(0, [call(1, 'z', 'settled')], `${sessionId}_first`)
    const orgOf = async (id: string) =>
      (
        await libsql
          .db()
          .all<{ organisation_id: string }>(
            'select organisation_id from session_tool_invocations where session_id = ?',
            id,
          )
      ).map((row) => row.organisation_id)
    const rows = [call(1, 'a', 'pending'), call(2, 'a', 'settled')]
    const before = writes
    await Promise.all([
      first,
      append(0, rows),
      ledger.append({ sessionId: other, organisationId: 'org_2', after: 0, rows }),
      append(1, [call(2, 'late', 'settled')], erased),
      append(
        0,
        [{ seq: 1, kind: 'dead-letter.closed', payload: '{"seq":1}', createdAt: 1 }],
        `${sessionId}_k`,
      ),
    ])
    expect(writes - before).toBe(2)
    expect([await stored(), await stored(other), await stored(erased)]).toEqual([
      ['a settled 2'],
      ['a settled 2'],
      [],
    ])
    expect([await orgOf(sessionId), await orgOf(other)]).toEqual([[organisationId], ['org_2']])
    expect([
      await mark(),
      await mark(other),
      await mark(erased),
      await mark(`${sessionId}_k`),
    ]).toEqual([2, 2, 2, 1])
  })

  test('[OUT3] the same rows again, also out of order, give the same result', async () => {
    const rows = [
      call(1, 'a', 'pending'),
      call(2, 'b', 'pending'),
      call(3, 'a', 'settled'),
      call(4, 'b', 'settled'),
    ]
    const order = [[0, 1, 2, 3], [3, 0], [2], [1, 0], [3, 2, 1, 0]]
    for (const places of order) {
      const given = places.map((place) => rows[place] as OutboxRow)
      for (const row of given)
        await libsql.db().batch(ledgerStatements({ sessionId, organisationId }, [row]))
      await libsql.db().batch(ledgerStatements({ sessionId, organisationId }, given))
    }
    expect(await stored()).toEqual(['a settled 3', 'b settled 4'])
  })

  test('[LIFE14] a snapshot that was deleted is gone, also if its rows come again; another session’s stays', async () => {
    const snapshot = (seq: number, id: string): OutboxRow => ({
      seq,
      kind: 'snapshot',
      createdAt: seq,
      payload: JSON.stringify({
        id: `${id}_${sessionId}`,
        configurationId: null,
        provider: 'local',
        operationId: `op_${id}_${sessionId}`,
        message: '',
        bytes: 1,
        createdAt: 1,
      }),
    })
    const deleted = (seq: number, id: string): OutboxRow => ({
      seq,
      kind: 'snapshot.deleted',
      createdAt: seq,
      payload: JSON.stringify({ id }),
    })
    const other = `${sessionId}_other`
    await append(0, [snapshot(1, 'theirs')], other)
    const rows = [
      snapshot(1, 'a'),
      snapshot(2, 'b'),
      deleted(3, `a_${sessionId}`),
      deleted(4, `theirs_${sessionId}`),
    ]
    for (let time = 0; time < 2; time += 1)
      await libsql.db().batch(ledgerStatements({ sessionId, organisationId }, rows))
    const stranger = { sessionId, organisationId: 'org_2' }
    await libsql.db().batch(ledgerStatements(stranger, [deleted(5, `b_${sessionId}`)]))
    const left = await libsql
      .db()
      .all<{ id: string }>('select id from snapshots where id like ? order by id', `%${sessionId}`)
    expect(left.map(({ id }) => id)).toEqual([`b_${sessionId}`, `theirs_${sessionId}`])
  })

  test('[OUT3] texts come through as they are', async () => {
    const odd = 'a"b\\c\n\u2028\u{1f600}\u0001'
    await append(0, [call(1, odd, 'settled', { output: JSON.stringify({ odd }), error: odd })])
    const [row] = await libsql
      .db()
      .all(
        'select tool_call_id, output, error from session_tool_invocations where session_id = ?',
        sessionId,
      )
    expect(row).toEqual({ tool_call_id: odd, output: JSON.stringify({ odd }), error: odd })
  })

  test('[OUT2] large rows of many sessions at once get through', async () => {
    const output = 'x'.repeat(700 * 1024)
    const ids = Array.from({ length: 40 }, (_, n) => `${sessionId}_${n}`)
    // A busy server may need longer than one request may take: then a session sends again, as here.
    const send = (id: string, tries = 20): Promise<number> =>
      append(0, [call(1, 'a', 'settled', { output })], id).catch((error: { code?: string }) => {
        if (tries === 0 || error.code !== 'storage_unavailable') throw error
        return send(id, tries - 1)
      })
    expect(await Promise.all(ids.map((id) => send(id)))).toEqual(ids.map(() => 1))
  })
})

describe('refusals', () => {
  test('[OUT3] a session that names the run of another one does not take its record', async () => {
    const other = `${sessionId}_other`
    const run = (seq: number, state: string): OutboxRow => ({
      seq,
      kind: 'automation_run',
      createdAt: seq,
      payload: JSON.stringify({ id: `run of ${sessionId}`, state, createdAt: seq }),
    })
    await append(0, [run(1, 'running'), run(2, 'succeeded')])
    await append(0, [call(1, 'a', 'settled'), call(2, 'b', 'settled'), run(3, 'running')], other)
    const rows = await libsql
      .db()
      .all('select session_id, state from automation_runs where id = ?', `run of ${sessionId}`)
    expect(rows).toEqual([{ session_id: sessionId, state: 'succeeded' }])
    expect(await mark(other)).toBe(3)
  })

  test('[OUT5] a row that libSQL refuses becomes a dead letter; its neighbours and later rows go on', async () => {
    const other = `${sessionId}_other`
    const answers = await Promise.all([
      append(0, [call(1, 'first', 'settled')], `${sessionId}_warm-up`),
      append(0, [call(1, 'a', 'settled'), bad(2, 'b'), call(3, 'c', 'settled')]),
      append(0, [call(1, 'x', 'settled')], other),
    ])
    expect(answers).toEqual([1, 3, 1])
    expect([await stored(), await mark()]).toEqual([['a settled 1', 'c settled 3'], 3])
    expect(await stored(other)).toEqual(['x settled 1'])
    const { deadLetters, pendingSessions } = await ledger.status(organisationId)
    expect(deadLetters).toEqual([
      { sessionId, seq: 2, kind: 'call', error: expect.stringContaining('NOT NULL'), at: 7 },
    ])
    expect(pendingSessions).toBe(0)
  })

  test('[OUT9] behind a row that waits, all rows of its session wait, also those of a second request', async () => {
    const turn: OutboxRow = {
      ...{ seq: 1, kind: 'turn', createdAt: 1 },
      payload: JSON.stringify({
        ...{ id: `trn of ${sessionId}`, state: 'running', createdAt: 1 },
        ...{ inputTokens: 0, outputTokens: 0 },
      }),
    }
    const rename = (from: string, to: string) =>
      libsql.db().batch([{ sql: `alter table ${from} rename to ${to}`, values: [] }])
    await rename('turns', 'turns_later')
    const sent = [
      append(0, [call(1, 'first', 'settled')], `${sessionId}_before`).catch(() => undefined),
      append(0, [turn]),
      append(0, [turn, call(2, 'a', 'settled')]),
    ]
    const other = () => append(0, [call(1, 'x', 'settled')], `${sessionId}_other`)
    const answers = await Promise.allSettled([...sent, other()])
    expect(answers.slice(1, 3).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    // On a busy machine a request may take too long, and is repeated as a session does.
    await expect.poll(() => other().catch(() => 0), { timeout: 30_000 }).toBe(1)
    await rename('turns_later', 'turns')
    expect([await stored(), await mark()]).toEqual([[], undefined])
    const again = () => append(0, [turn, call(2, 'a', 'settled')]).catch(() => 0)
    await expect.poll(again, { timeout: 30_000 }).toBe(2)
    expect((await ledger.status(organisationId)).deadLetterCount).toBe(0)
  })

  test('[OUT9] a table that is not there yet holds up only those who write to it', async () => {
    const late = Object.assign(new Error('The database is older than this release'), {
      code: 'storage_unavailable',
      cause: new Error('SQLITE_UNKNOWN: no such table: turns'),
    })
    const db: Db = {
      all: async () => [],
      batch: async (statements) => {
        if (statements.some(({ sql }) => sql.startsWith('insert into turns '))) throw late
      },
    }
    ledger = new LedgerActor({ sql: memorySql(), db: () => db, now: () => 7, log: () => {} })
    const turn: OutboxRow = { seq: 1, kind: 'turn', createdAt: 1, payload: '{}' }
    // Sent first, so that the others are one batch.
    const first = append(0, [call(1, 'first', 'settled')], `${sessionId}_before`)
    const [waits, goesOn] = await Promise.allSettled([
      append(0, [turn]),
      append(0, [call(1, 'x', 'settled')], `${sessionId}_other`),
    ])
    expect([await first, waits.status, goesOn]).toEqual([
      1,
      'rejected',
      { status: 'fulfilled', value: 1 },
    ])
  })

  test('[OUT9] of one request nothing is written behind a row that waits', async () => {
    const late = Object.assign(new Error('The database is older than this release'), {
      code: 'storage_unavailable',
      cause: new Error('SQLITE_UNKNOWN: no such table: turns'),
    })
    const written: string[] = []
    const db: Db = {
      all: async () => [],
      batch: async (statements) => {
        const all = statements.map(({ sql }) => sql)
        if (all.some((sql) => sql.startsWith('insert into turns '))) throw late
        written.push(...all)
      },
    }
    ledger = new LedgerActor({ sql: memorySql(), db: () => db, now: () => 7, log: () => {} })
    const turn: OutboxRow = { seq: 2, kind: 'turn', createdAt: 1, payload: '{}' }
    const rows = [call(1, 'a', 'settled'), turn, call(3, 'b', 'settled')]
    await expect(append(0, rows)).rejects.toMatchObject({ code: 'storage_unavailable' })
    // The first row with its mark, and nothing after it.
    expect(written.map((sql) => sql.split(' ')[2])).toEqual([
      'session_tool_invocations',
      'outbox_watermarks',
    ])
  })

  test('[OUT10] of a refused row its own session is told, and no other of the shard', async () => {
    await append(0, [bad(1, 'a')])
    const input = { sessionId: `${sessionId}_other`, organisationId, after: 0 }
    const answer = await ledger.append({ ...input, rows: [call(1, 'b', 'settled')] })
    expect(answer).toEqual({ stored: 1, refused: [] })
    const again = await ledger.append({ sessionId, organisationId, after: 1, rows: [] })
    expect(again.refused).toMatchObject([{ seq: 1, kind: 'call' }])
  })

  test('[OUT5] a row of an unknown kind too', async () => {
    expect(
      await append(0, [
        { seq: 1, kind: 'nonsense', payload: '{}', createdAt: 1 },
        call(2, 'a', 'settled'),
      ]),
    ).toBe(2)
    expect((await ledger.status(organisationId)).deadLetters).toMatchObject([
      { seq: 1, kind: 'nonsense' },
    ])
    expect(await stored()).toEqual(['a settled 2'])
  })

  test('[OUT2] while libSQL is away everything is refused and counted as lag; then it drains', async () => {
    away = true
    const refused = [
      append(0, [call(5, 'a', 'settled')]),
      append(0, [call(6, 'b', 'settled')], `${sessionId}_b`),
    ]
    for (const answer of refused)
      await expect(answer).rejects.toMatchObject({ code: 'storage_unavailable' })
    expect(await ledger.status(organisationId)).toMatchObject({
      ...{ pendingSessions: 2, oldestAt: 5, deadLetters: [], deadLetterCount: 0 },
      reason: 'away',
    })
    away = false
    await Promise.all([
      append(0, [call(5, 'a', 'settled')]),
      append(0, [call(6, 'b', 'settled')], `${sessionId}_b`),
    ])
    expect(await ledger.status(organisationId)).toMatchObject({
      ...{ pendingSessions: 0, oldestAt: null, reason: null, deadLetters: [] },
    })
  })
})

describe('answers', () => {
  test('[OUT8] a second request for the same rows is not answered before they are written', async () => {
    writesAway = true
    // The first is on its way at once; the others make the next batch.
    const ids = [`${sessionId}_before`, sessionId, sessionId]
    const answers = ids.map((id) => append(0, [call(1, 'a', 'settled')], id))
    expect((await Promise.allSettled(answers)).map(({ status }) => status)).toEqual(
      ids.map(() => 'rejected'),
    )
    expect([await stored(), await mark()]).toEqual([[], undefined])
    writesAway = false
    expect(await append(0, [call(1, 'a', 'settled')])).toBe(1)
  })
})

describe('loss', () => {
  test('[OUT4] a session that knows more than libSQL is told how far libSQL is, and nothing is written', async () => {
    await append(0, [call(1, 'a', 'settled'), call(2, 'b', 'settled')])
    await libsql.db().batch([
      {
        sql: 'delete from session_tool_invocations where session_id = ? and outbox_seq > 1',
        values: [sessionId],
      },
      { sql: 'update outbox_watermarks set seq = 1 where session_id = ?', values: [sessionId] },
    ])
    expect(await append(2, [call(3, 'c', 'settled')])).toBe(1)
    expect(await stored()).toEqual(['a settled 1'])
    expect(await append(1, [call(2, 'b', 'settled'), call(3, 'c', 'settled')])).toBe(3)
    expect(await stored()).toEqual(['a settled 1', 'b settled 2', 'c settled 3'])
  })

  test('[OUT4] an empty append only asks', async () => {
    expect(await append(0, [])).toBe(0)
    await append(0, [call(1, 'a', 'settled')])
    expect(await append(1, [])).toBe(1)
    await libsql
      .db()
      .batch([{ sql: 'delete from outbox_watermarks where session_id = ?', values: [sessionId] }])
    expect(await append(1, [])).toBe(0)
  })

  test('[SES6] rows that come late do not bring back what was erased', async () => {
    const rows = [call(1, 'a', 'pending'), call(2, 'a', 'settled')]
    await append(0, rows)
    await append(2, [{ seq: 3, kind: 'session.erased', payload: '{}', createdAt: 3 }])
    expect(await stored()).toEqual([])
    await append(0, rows)
    expect(await stored()).toEqual([])
  })

  test('[LIFE22] an erased session leaves the snapshot that a configuration starts from', async () => {
    const names = ['base', 'other'].map((name) => `${name}_${sessionId}`)
    const snapshots = names.map((id, index) => ({
      seq: index + 1,
      kind: 'snapshot',
      createdAt: 1,
      payload: JSON.stringify({
        id,
        operationId: `op_${id}`,
        provider: 'local',
        message: 'm',
        bytes: 1,
        createdAt: 1,
      }),
    }))
    await append(0, snapshots)
    await libsql.db().batch([
      {
        sql: `insert or ignore into organisations (id, name, created_at) values (?, 'n', 1)`,
        values: [organisationId],
      },
      {
        sql: `insert into configurations (id, organisation_id, project, name, trust_project_config, service_commands, env_files,
            base_snapshot_id, created_at, updated_at) values (?, ?, 'p', 'n', 0, '[]', '[]', ?, 1, 1)`,
        values: [`cfg_${sessionId}`, organisationId, names[0] ?? ''],
      },
    ])
    await append(2, [{ seq: 3, kind: 'session.erased', payload: '{}', createdAt: 3 }])
    const left = await libsql.db().all('select id from snapshots where session_id = ?', sessionId)
    expect(left).toEqual([{ id: names[0] }])
  })
})

test('[OUT1] a session always has the same shard, and all shards are used', () => {
  const shards = Array.from({ length: 200 }, (_, n) => ledgerShard(`ses_${n}`, ledgerShards))
  expect(shards).toEqual(
    Array.from({ length: 200 }, (_, n) => ledgerShard(`ses_${n}`, ledgerShards)),
  )
  expect(new Set(shards).size).toBe(ledgerShards)
})
