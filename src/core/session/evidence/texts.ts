import type { ProvenChange } from '../../../contract/change.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import { bytesOf } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import type { SessionKernel } from '../record/kernel.ts'

// The texts of changes: their bytes are blobs by hash, and the session names those that it holds.

/** Before the commit that names them: a text that is named is there. */
export async function storeEvidenceTexts(
  kernel: SessionKernel,
  changes: readonly ProvenChange[],
): Promise<void> {
  const { organisationId, id: sessionId } = kernel.session()
  const texts = textsOf(changes)
  // Without texts nothing is asked of the store, which may be away.
  if (texts.size > 0) await kernel.ports.blobs().putAll({ organisationId, sessionId }, texts)
}

function textsOf(changes: readonly ProvenChange[]): Map<string, Uint8Array> {
  const texts = new Map<string, Uint8Array>()
  const add = (ref: ProvenChange['event']['before'], text: string | null) => {
    if (ref && text !== null && !texts.has(ref.sha256)) texts.set(ref.sha256, bytesOf(text))
  }
  for (const { event, beforeContent, afterContent } of changes) {
    add(event.before, beforeContent)
    add(event.after, afterContent)
  }
  return texts
}

/** Inside the commit that stores their events. */
export function nameEvidenceTexts(sql: Sql, now: number, changes: readonly ProvenChange[]): void {
  const refs = changes.flatMap(({ event }) => [event.before, event.after])
  for (const ref of refs) if (ref) nameText(sql, now, ref.sha256, ref.sizeBytes)
}

function nameText(sql: Sql, now: number, sha256: string, size: number): void {
  const isKnown = sql.all('select 1 from change_texts where sha256 = ?', sha256).length > 0
  if (isKnown) return
  sql.run('insert into change_texts (sha256, size, created_at) values (?, ?, ?)', sha256, size, now)
  addToOutbox(sql, now, 'change_text', { sha256, size, createdAt: now })
}

/** All of them, anew. */
export function projectEvidenceTexts(sql: Sql, now: number): void {
  const rows = sql.all<{ sha256: string }>(
    'select sha256, size, created_at as createdAt from change_texts order by sha256',
  )
  for (const row of rows) addToOutbox(sql, now, 'change_text', row)
}
