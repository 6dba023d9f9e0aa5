import { AppError } from '../../../contract/error.ts'
import { maxArtifactTotalBytes } from '../../../contract/tool.ts'
import {
  clearDeadline,
  clearTakenDeadline,
  ensureDeadline,
  setDeadline,
} from '../../actor/deadlines.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Room } from '../../actor/room.ts'
import type { OutboxRow, Sql } from '../../ports.ts'
import { openCommands } from '../commands/rows.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { guardOpenSandbox } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { outsideOrganisation } from '../record/outside.ts'
import { countActiveCalls } from './rows.ts'

const hourMs = 60 * 60_000
/** What a sandbox has uploaded and nothing has named for so long is deleted. */
const unnamedMs = 24 * hourMs
/** Between its being let in and its being stored no more passes. */
const storingMs = 5 * 60_000

/**
 * What the session's sandboxes have uploaded, counted before it is stored. It promises that bytes which nothing has named
 * stay within what the commands of the last day could need, that the organisation knows how many bytes the session holds,
 * and that both count down when uploads are swept or the session is erased. The agent's room lets uploads in by it.
 */
export class Uploads implements Room {
  readonly #kernel: SessionKernel
  /** One at a time: the organisation is told a sum, and the last one told must be the last one counted. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  readonly deadlines = {
    uploads: (before: string) =>
      this.#kernel.commit((sql, now) => sweepUploads(sql, now, Number(before))),
    'uploads.tell': () =>
      this.#inTurn(async () => {
        await this.#tell()
        this.#kernel.commit((sql) => clearTakenDeadline(sql, 'uploads.tell'))
      }),
  }

  /** Throws too_large with limit and use. Content that is counted already is let in again. */
  admit(sandbox: SandboxCaller, sha256: string, size: number): Promise<void> {
    return this.#inTurn(async () => {
      guardOpenSandbox(this.#kernel, sandbox)
      const isNew = this.#kernel.commit((sql, now) => countUpload(sql, now, sha256, size))
      const refusal = await this.#tell()
      if (refusal === null) return
      if (isNew)
        this.#kernel.commit((sql) => sql.run('delete from uploads where sha256 = ?', sha256))
      throw new AppError('too_large', refusal)
    })
  }

  /** The session is being erased, so nothing more is let in. */
  readonly forget = (): Promise<void> => this.#inTurn(async () => void (await this.#tell()))

  async #tell(): Promise<string | null> {
    const { sql } = this.#kernel.ports
    const { id, status } = this.#kernel.session()
    const bytes = status === 'erased' ? 0 : heldBytes(sql)
    return (await outsideOrganisation(this.#kernel).uploads.hold(id, bytes)).refusal
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => undefined)
    return done
  }
}

/** Inside a commit, before an upload is stored. False: it was counted already. */
function countUpload(sql: Sql, now: number, sha256: string, size: number): boolean {
  const isNew = sql.all('select 1 from uploads where sha256 = ?', sha256).length === 0
  if (isNew && !isNamed(sql, sha256)) mustFit(sql, now, size)
  sql.run('insert or replace into uploads values (?, ?, ?)', sha256, size, now)
  expectNames(sql, now)
  return isNew
}

/** One deadline for the uploads of each hour, named by its end; near the end also the next: it is stored a little later. */
function expectNames(sql: Sql, now: number): void {
  for (const at of [now, now + storingMs]) {
    const hourEnd = (Math.floor(at / hourMs) + 1) * hourMs
    ensureDeadline(sql, `uploads:${hourEnd}`, hourEnd + unnamedMs)
  }
}

const isNamed = (sql: Sql, sha256: string): boolean =>
  sql.all('select 1 from artifacts where sha256 = ? limit 1', sha256).length > 0

/** As much as one call may store, and as much again for each command that uploads and was given within a day. */
function mustFit(sql: Sql, now: number, size: number): void {
  const [unnamed] = sql.all<{ bytes: number | null }>(
    'select sum(size) as bytes from uploads where sha256 not in (select sha256 from artifacts)',
  )
  const waiting = unnamed?.bytes ?? 0
  if (waiting + size <= maxArtifactTotalBytes) return
  const [given] = sql.all<{ n: number }>(
    `select count(*) as n from commands where kind in ('collect', 'execute') and created_at > ?`,
    now - unnamedMs - hourMs,
  )
  const allowed = maxArtifactTotalBytes * (1 + (given?.n ?? 0))
  if (waiting + size <= allowed) return
  throw new AppError(
    'too_large',
    `Cannot store ${size} bytes: ${waiting} bytes of uploads wait for an artifact that names them, and ${allowed} are allowed`,
  )
}

/** Of uploads, artifacts and texts of changes, each content once. */
function heldBytes(sql: Sql): number {
  const [held] = sql.all<{ bytes: number | null }>(
    `select sum(size) as bytes from (select max(size) as size from
       (select sha256, size from uploads union all select sha256, size from artifacts
        union all select sha256, size from change_texts) group by sha256)`,
  )
  return held?.bytes ?? 0
}

/** Inside a commit. A command that is still open, or a call, may yet name what was uploaded for it. */
function sweepUploads(sql: Sql, now: number, before: number): void {
  if (openCommands(sql).length > 0 || countActiveCalls(sql) > 0)
    return setDeadline(sql, `uploads:${before}`, now + hourMs)
  addToOutbox(sql, now, 'uploads.swept', { before })
  sql.run('delete from uploads where at < ?', before)
  setDeadline(sql, 'uploads.tell', now)
  clearDeadline(sql, `uploads:${before}`)
}

/** Before it is sent: content that an artifact names counts as named although libSQL has refused the artifact's row. */
export function describeUploadSweeps(sql: Sql, rows: readonly OutboxRow[]): OutboxRow[] {
  if (!rows.some(({ kind }) => kind === 'uploads.swept')) return [...rows]
  return rows.map((row) => {
    if (row.kind !== 'uploads.swept') return row
    const { before } = JSON.parse(row.payload) as { before: number }
    return { ...row, payload: JSON.stringify({ before, keep: namedUnseen(sql) }) }
  })
}

/** Of rows that are still on their way, and of all of a kind as soon as one of them was refused. */
function namedUnseen(sql: Sql): string[] {
  const unsent = (kind: string, field: string) =>
    `select payload ->> '$.${field}' from outbox
     where seq > (select watermark from outbox_mark) and kind glob '${kind}*' and json_valid(payload)`
  const refused = (kind: string) => `exists (select 1 from dead_letters where kind = '${kind}')`
  return sql
    .all<{ sha256: string }>(
      `select sha256 from artifacts where ${refused('artifact')} or id in (${unsent('artifact', 'id')})
       union select sha256 from change_texts
         where ${refused('change_text')} or sha256 in (${unsent('change_text', 'sha256')})`,
    )
    .map(({ sha256 }) => sha256)
}
