// The lines of a bundle and the statement about them. Pure: who signs it is the caller's matter.

import { AppError } from '../../contract/error.ts'
import {
  type ExportPredicate,
  type ExportRecord,
  exportVersion,
  maxExportBytes,
  predicateType,
  type Statement,
  statementType,
} from '../../contract/export.ts'
import type { ChangeEvent } from '../../contract/change.ts'
import { opencodeVersion, version } from '../../contract/version.ts'
import { hashText } from '../hash.ts'
import { MerkleTree } from './merkle.ts'
import type { TimelineRow } from '../session/runs/timeline.ts'

export interface StoredChange {
  eventId: string
  hash: string
  /** As it is stored. */
  event: string
}
/** What of a run goes into a bundle. */
export interface RunContent {
  run: { id: string; sessionId: string; project: string; status: string }
  entries: readonly TimelineRow[]
  approvals: readonly unknown[]
  changes: readonly StoredChange[]
  /** By hash. Empty if only hashes are asked for. */
  texts: ReadonlyMap<string, string>
  policy: ExportPredicate['policy']
}

function bundleRecords({ run, entries, approvals, changes, texts }: RunContent): ExportRecord[] {
  return [
    { type: 'run', run },
    ...entries.map(({ seq, at, kind, data, previous_hash: previousHash, hash }): ExportRecord => ({
      ...{ type: 'entry', seq, at, kind, data, previousHash, hash },
    })),
    ...approvals.map((approval): ExportRecord => ({ type: 'approval', approval })),
    ...changes.map(({ eventId, hash, event }): ExportRecord => ({
      ...{ type: 'change', eventId, hash, event },
    })),
    ...[...texts].map(([sha256, text]): ExportRecord => ({ type: 'text', sha256, text })),
  ]
}

/** One line each; a line feed inside a text is escaped by JSON. */
export function bundleLines(content: RunContent): string[] {
  const lines = bundleRecords(content).map((record) => JSON.stringify(record))
  const size = lines.reduce((total, line) => total + line.length + 1, 0)
  if (size <= maxExportBytes) return lines
  throw new AppError(
    'too_large',
    `Cannot export run "${content.run.id}": it has more than ${maxExportBytes} bytes. Ask with texts=hashes`,
  )
}

export function bundleStatement(
  content: RunContent,
  lines: readonly string[],
  of: { texts: ExportPredicate['texts']; now: number },
): Statement {
  return {
    _type: statementType,
    subject: [
      ...lines.map((line, at) => ({
        name: `line ${at + 2}`,
        digest: { sha256: hashText(line) },
      })),
      ...filesOf(content.changes),
    ],
    predicateType,
    predicate: {
      formatVersion: exportVersion,
      run: content.run,
      head: bundleHead(content),
      records: lines.length,
      root: new MerkleTree(lines).root,
      texts: of.texts,
      policy: content.policy,
      versions: { gantry: version, opencode: opencodeVersion },
      exportedAt: of.now,
    },
  }
}

export const bundleHead = ({ entries }: RunContent): ExportPredicate['head'] => ({
  entries: entries.length,
  hash: entries.at(-1)?.hash ?? hashText(''),
})

/** What each file was last proven to be, so that it can be looked up by its hash. */
function filesOf(changes: readonly StoredChange[]): Statement['subject'] {
  const files = new Map<string, string>()
  for (const { event } of changes) {
    const { relativePath, after } = JSON.parse(event) as ChangeEvent
    if (after) files.set(relativePath, after.sha256)
    else files.delete(relativePath)
  }
  return [...files].map(([path, sha256]) => ({ name: `file ${path}`, digest: { sha256 } }))
}
