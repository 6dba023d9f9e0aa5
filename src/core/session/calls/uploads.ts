import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import { countActiveCalls } from './list.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { OutboxRow, Sql } from '../../ports.ts'
import { openCommands } from '../commands/rows.ts'

const hourMs = 60 * 60_000
/** What a sandbox has uploaded and nothing has named for so long is deleted. */
const unnamedMs = 24 * hourMs

/** Inside a commit, before an upload is stored. One deadline for the uploads of each hour, named by its end. */
export function expectNames(sql: Sql, now: number): void {
  const hourEnd = (Math.floor(now / hourMs) + 1) * hourMs
  ensureDeadline(sql, `uploads:${hourEnd}`, hourEnd + unnamedMs)
}

/** Inside a commit. A command that is still open, or a call, may yet name what was uploaded for it. */
export function sweepUploads(sql: Sql, now: number, before: number): void {
  if (openCommands(sql).length > 0 || countActiveCalls(sql) > 0)
    return setDeadline(sql, `uploads:${before}`, now + hourMs)
  addToOutbox(sql, now, 'uploads.swept', { before })
  clearDeadline(sql, `uploads:${before}`)
}

/** Before it is sent: content that an artifact names counts as named although libSQL has refused the artifact's row. */
export function describeSweeps(sql: Sql, rows: readonly OutboxRow[]): OutboxRow[] {
  if (!rows.some(({ kind }) => kind === 'uploads.swept')) return [...rows]
  return rows.map((row) => {
    if (row.kind !== 'uploads.swept') return row
    const { before } = JSON.parse(row.payload) as { before: number }
    return { ...row, payload: JSON.stringify({ before, keep: namedUnseen(sql) }) }
  })
}

/** Of artifacts that are still on their way, and of all as soon as the row of one was refused. */
function namedUnseen(sql: Sql): string[] {
  return sql
    .all<{ sha256: string }>(
      `select distinct sha256 from artifacts where exists (select 1 from dead_letters where kind = 'artifact')
         or id in (select payload ->> '$.id' from outbox
           where seq > (select watermark from outbox_mark) and kind glob 'artifact*' and json_valid(payload))`,
    )
    .map(({ sha256 }) => sha256)
}
