import { createHash } from 'node:crypto'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const emptyHash = createHash('sha256').digest('hex')
const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string
let sessionId: string
let runId: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
})
beforeEach(async () => {
  sessionId = (await call('POST', '/v1/sessions', {})).json.id
  runId = (await call('POST', `/v1/sessions/${sessionId}/runs`, { intent: 'x' })).json.id
  await flush()
})

afterEach(() => accept())

const call = (method: string, path: string, body?: unknown, credential = key) =>
  app.call(method, path, credential, body)
const sql = (text: string) => libsql.db().batch([{ sql: text, values: [] }])
const addEntry = async (phase: string) => {
  const entry = { kind: 'phase.started', data: { phase } }
  expect((await call('POST', `/v1/runs/${runId}/events`, entry)).status).toBe(201)
}
/** The alarm of a session, after what it is doing. */
async function wake() {
  await app.settle()
  app.pass(60_000)
  app.deps.session(sessionId)
  await app.sessions.get(sessionId)?.runDue()
  await app.settle()
}
/** A busy server may need more than one try. */
const busy = { timeout: 60_000, interval: 10 }
const eventually = (look: () => Promise<unknown>) =>
  expect.poll(async () => {
    await wake()
    return look()
  }, busy)
/** Everything that libSQL takes is there. */
const flush = () => eventually(async () => (await outbox()).pending).toBe(0)
/** The timeline as libSQL has it. */
const entries = async () =>
  (
    await libsql
      .db()
      .all<{ data: string }>('select data from run_events where run_id = ? order by seq', runId)
  ).flatMap(({ data }) => (JSON.parse(data) as { phase?: string }).phase ?? [])
const letters = async () => (await call('GET', `/v1/sessions/${sessionId}/dead-letters`)).json.items
const resend = (body: object = {}) =>
  call('POST', `/v1/sessions/${sessionId}/dead-letters/resend`, body)
const status = async () => (await call('GET', '/v1/status')).json.outbox
const outbox = async () => (await call('GET', `/v1/sessions/${sessionId}`)).json.outbox
const isWhole = async () => (await call('GET', `/v1/runs/${runId}/verify`)).json.ok

/** libSQL refuses every entry of a phase with this name. */
const refuse = (phase: string) =>
  sql(`create trigger refusing before insert on run_events when new.data like '%"${phase}"%'
    begin select raise(abort, 'bad phase'); end`)
const accept = () => sql('drop trigger if exists refusing')

describe('what is waited for', () => {
  test('[OUT9] [OUT12] while a table or a column is missing rows wait, with the reason; others go on, then nothing is lost', async () => {
    for (const [hide, show, reason] of [
      [
        'alter table run_events rename to run_events_later',
        'alter table run_events_later rename to run_events',
        'no such table: run_events',
      ],
      [
        'alter table run_events rename column signature to signature_later',
        'alter table run_events rename column signature_later to signature',
        'no column named signature',
      ],
    ] as const) {
      await sql(hide)
      for (const phase of ['one', 'two', 'three']) await addEntry(phase)
      const other = (await call('POST', '/v1/sessions', {})).json.id as string
      for (let times = 0; times < 2; times += 1) await wake()
      await eventually(status).toMatchObject({ reason: expect.stringContaining(reason) })
      await eventually(async () => (await status()).pendingSessions).toBe(1)
      expect((await status()).lagMs).toBeGreaterThan(0)
      const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
      const theirs = (await call('GET', '/v1/status', undefined, stranger)).json.outbox
      expect(theirs).toMatchObject({ lagMs: 0, pendingSessions: 0, reason: null })
      const all = (await call('GET', '/v1/deployment/status', undefined, testOperatorKey)).json
      expect(all.outbox).toMatchObject({ pendingSessions: 1, reason: (await status()).reason })
      expect(all.outbox.lagMs).toBeGreaterThan(0)
      expect(await outbox()).toMatchObject({
        reason: expect.stringContaining(reason),
        deadLetters: 0,
      })
      const stored = () => libsql.db().all('select 1 from sessions where id = ?', other)
      await eventually(stored).toHaveLength(1)
      await sql(show)
      await flush()
      expect(await outbox()).toMatchObject({ pending: 0, reason: null, deadLetters: 0 })
      expect(await status()).toMatchObject({ lagMs: 0, reason: null, deadLetters: [] })
    }
    expect(await entries()).toEqual(['one', 'two', 'three', 'one', 'two', 'three'])
    expect(await isWhole()).toBe(true)
  })
})

describe('what is refused', () => {
  test('[OUT5] [OUT10] it is listed and kept beyond a restart, later rows go on, and sent again it is in its place', async () => {
    await refuse('bad')
    for (const phase of ['one', 'bad', 'three']) await addEntry(phase)
    await flush()
    expect(await entries()).toEqual(['one', 'three'])
    expect(await letters()).toMatchObject([
      { kind: 'run_event', reason: expect.stringContaining('bad phase'), canResend: true },
    ])
    expect([(await outbox()).deadLetters, (await status()).deadLetterCount]).toEqual([1, 1])
    const all = (await call('GET', '/v1/deployment/status', undefined, testOperatorKey)).json.outbox
    expect(all).toMatchObject({ deadLetterCount: 1, deadLetters: [{ sessionId }] })
    app.restart(sessionId)
    // Still bad: it comes back, with all that it had.
    expect((await resend()).json).toEqual({ sent: 1, left: 0 })
    await flush()
    expect((await letters()).length).toBe(1)
    app.pass(3 * 60 * 60_000)
    await wake()
    app.restart(sessionId)
    await accept()
    const [{ seq }] = await letters()
    expect((await resend({ seqs: [seq] })).json).toEqual({ sent: 1, left: 0 })
    // On its way, although the ledger still tells of it.
    expect(await letters()).toEqual([])
    await flush()
    expect(await entries()).toEqual(['one', 'bad', 'three'])
    expect([await letters(), (await status()).deadLetterCount]).toEqual([[], 0])
    expect((await outbox()).deadLetters).toBe(0)
    expect(await isWhole()).toBe(true)
  })

  test('[OUT10] what is sent again does not undo what came after it', async () => {
    await sql(`create trigger refusing before update on runs when new.status = 'running'
      begin select raise(abort, 'not yet'); end`)
    await call('PATCH', `/v1/runs/${runId}`, { status: 'running' })
    await flush()
    await call('POST', `/v1/runs/${runId}/finish`, { status: 'completed' })
    await flush()
    await accept()
    const stored = () => libsql.db().all('select status from runs where id = ?', runId)
    expect((await letters()).length).toBeGreaterThan(0)
    expect(await stored()).toEqual([{ status: 'completed' }])
    await resend()
    await flush()
    expect([await letters(), await stored()]).toEqual([[], [{ status: 'completed' }]])
  })

  test('[OUT10] a session that never heard of the refusal learns of it with the next answer', async () => {
    await refuse('bad')
    const append = app.ledger.append.bind(app.ledger)
    app.ledger.append = async (input) => {
      await append(input)
      throw new Error('The answer did not arrive')
    }
    await addEntry('bad')
    await wake()
    app.restart(sessionId)
    app.ledger.append = append
    await flush()
    await accept()
    expect(await letters()).toMatchObject([{ kind: 'run_event', canResend: true }])
    await resend()
    await flush()
    expect(await entries()).toEqual(['bad'])
  })

  test('[OUT10] an organisation’s own rows too', async () => {
    await sql(`create trigger refusing before insert on sandbox_actions
      begin select raise(abort, 'no actions'); end`)
    await call('POST', '/v1/kill-switch', { on: true, reason: 'test' })
    await call('POST', '/v1/kill-switch', { on: false, reason: 'test' })
    const own = async () => {
      app.pass(60_000)
      await app.actorOf(organisationId).runDue()
      return (await call('GET', '/v1/dead-letters')).json.items
    }
    await expect.poll(async () => (await own()).length, busy).toBe(2)
    await accept()
    const { json } = await call('POST', '/v1/dead-letters/resend', {})
    expect(json).toMatchObject({ left: 0 })
    await expect.poll(own, busy).toEqual([])
    expect(
      (
        await libsql
          .db()
          .all('select 1 from sandbox_actions where organisation_id = ?', organisationId)
      ).length,
    ).toBe(json.sent)
  })

  test('[OUT10] listing needs read, sending again needs admin, and others’ are not found', async () => {
    await refuse('bad')
    await addEntry('bad')
    await flush()
    await accept()
    const path = `/v1/sessions/${sessionId}/dead-letters`
    const { secret: reader } = await app.makeKey(organisationId, 'read', 'write')
    expect((await call('GET', path, undefined, reader)).status).toBe(200)
    expect((await call('POST', `${path}/resend`, {}, reader)).status).toBe(403)
    const { secret: stranger } = await app.makeKey(await app.makeOrganisation(), 'admin')
    expect((await call('GET', path, undefined, stranger)).status).toBe(404)
    expect((await call('POST', `${path}/resend`, {}, stranger)).status).toBe(404)
    expect((await call('GET', '/v1/status', undefined, stranger)).json.outbox).toMatchObject({
      deadLetters: [],
      deadLetterCount: 0,
    })
    expect((await resend({ seqs: [999] })).json).toEqual({ sent: 0, left: 1 })
    expect((await resend({ seqs: [] })).status).toBe(400)
    await call('DELETE', `/v1/sessions/${sessionId}`)
    await eventually(async () => (await status()).deadLetterCount).toBe(0)
  })
})

describe('what an earlier release has refused', () => {
  /** It kept neither the row nor whose it was, and its outbox is long pruned. */
  function forget(kind: string, seq: number) {
    app.ledgerSql.run(
      `insert into dead_letters (session_id, seq, kind, error, at) values (?, ?, ?, 'old', 1)`,
      sessionId,
      seq,
      kind,
    )
    app.databaseOf(sessionId).run('delete from outbox where seq < (select max(seq) from outbox)')
  }

  test('[OUT11] it is told anew from the session’s own records', async () => {
    for (const phase of ['one', 'two', 'three']) await addEntry(phase)
    await flush()
    await sql(`delete from run_events where run_id = '${runId}' and data like '%two%'`)
    await sql(`delete from runs where id = '${runId}'`)
    await sql(`delete from sessions where id = '${sessionId}'`)
    forget('run_event', 3)
    forget('run', 4)
    forget('session', 5)
    forget('webhook_delivery', 6)
    expect((await letters()).map(({ canResend }: { canResend: boolean }) => canResend)).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect((await resend()).json).toEqual({ sent: 3, left: 1 })
    await flush()
    expect(await entries()).toEqual(['one', 'two', 'three'])
    expect(await isWhole()).toBe(true)
    for (const [table, id] of [
      ['runs', runId],
      ['sessions', sessionId],
    ])
      expect(await libsql.db().all(`select 1 from ${table} where id = ?`, id ?? '')).toHaveLength(1)
    expect((await letters()).length).toBe(1)
  })

  test('[OUT11] [CHG6] so are changes and the names of their texts, to the letter', async () => {
    const state = { sha256: emptyHash, sizeBytes: 0 }
    const event = {
      ...{ schemaVersion: 1, eventId: 'evt_other_1', taskId: runId, taskRef: '#1' },
      ...{ taskRefKind: 'display', phase: 'work', executionSeq: 1, sessionId: 'other-1' },
      ...{ memberName: 'other', toolUseId: 'call_1', source: 'other_patch' },
      ...{ operation: 'modify', confidence: 'medium', workspaceRoot: '/repo' },
      ...{ filePath: '/repo/x.txt', relativePath: 'x.txt', timestamp: '2026-01-01T00:00:00Z' },
      ...{ toolStatus: null, after: null, relation: null, oldString: null, newString: null },
      before: { ...state, blobRef: `sha256:${emptyHash}` },
      beforeState: { exists: true, ...state },
      afterState: { exists: true, unavailableReason: 'not-captured' },
      ...{ linesAdded: null, linesRemoved: null, sourceRuntime: 'other', sourceProvider: 'other' },
      ...{ sourceSessionId: null, sourcePartId: null, sourceMessageId: null },
      ...{ parentUserMessageId: null, attributionMethod: 'board-tool-call' },
      ...{ sourceImportKey: 'other\0one', evidenceProof: 'journal', snapshotId: null },
      ...{ snapshotSource: null, shapeFingerprint: null, supersedesEventId: null, warnings: [] },
    }
    const changes = [{ event, beforeContent: '' }]
    const made = await call('POST', `/v1/runs/${runId}/changes/import`, { changes })
    expect(made.json).toEqual({ imported: 1, duplicates: 0 })
    await flush()
    const tables = ['task_change_events', 'change_texts']
    const rowsOf = async (table: string) =>
      (await libsql.db().all(`select * from ${table} where session_id = ?`, sessionId)).map(
        (row) => ({ ...row, outbox_seq: null }),
      )
    const rows = () => Promise.all(tables.map(rowsOf))
    const before = await rows()
    expect(before.map(({ length }) => length)).toEqual([1, 1])
    for (const table of tables) await sql(`delete from ${table} where session_id = '${sessionId}'`)
    forget('change_event', 3)
    forget('change_text', 4)
    expect((await resend()).json).toEqual({ sent: 2, left: 0 })
    await flush()
    expect(await rows()).toEqual(before)
  })
})
