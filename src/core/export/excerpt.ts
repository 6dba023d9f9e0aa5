// What a run has done to one file, to be shown without the rest: the lines of the bundle that are about it, each with its
// path to the signed root. Nothing else of the run is in it, not even the names of other files.

import type { ChangeEvent } from '../../contract/change.ts'
import { AppError } from '../../contract/error.ts'
import {
  type ExcerptLine,
  type ExcerptStatement,
  excerptType,
  exportVersion,
  statementType,
} from '../../contract/export.ts'
import { opencodeVersion, version } from '../../contract/version.ts'
import { bundleHead, type RunContent } from './bundle.ts'
import { MerkleTree } from './merkle.ts'

export function excerptStatement(
  content: RunContent,
  lines: readonly string[],
  of: { path: string; shown: readonly ExcerptLine[]; now: number },
): ExcerptStatement {
  const { run } = content
  const { root } = new MerkleTree(lines)
  return {
    _type: statementType,
    subject: [{ name: `run ${run.id}`, digest: { sha256: root } }],
    predicateType: excerptType,
    predicate: {
      formatVersion: exportVersion,
      run,
      head: bundleHead(content),
      records: lines.length,
      root,
      versions: { gantry: version, opencode: opencodeVersion },
      exportedAt: of.now,
      file: { path: of.path, lines: of.shown.map(({ index }) => index) },
    },
  }
}

/** In the order of the bundle. */
export function excerptLines(
  content: RunContent,
  lines: readonly string[],
  path: string,
): ExcerptLine[] {
  const isShown = shownOf(content, path)
  const tree = new MerkleTree(lines)
  return lines.flatMap((line, index) =>
    isShown(line) ? [{ type: 'shown' as const, index, path: tree.path(index), line }] : [],
  )
}

/** Its changes, what the timeline says of them, and their texts. */
function shownOf({ changes }: RunContent, path: string): (line: string) => boolean {
  const own = changes
    .map(({ eventId, event }) => ({ eventId, event: JSON.parse(event) as ChangeEvent }))
    .filter(({ event }) => event.relativePath === path)
  if (own.length === 0)
    throw new AppError('unprocessable', `The run has not changed "${path}"`, [
      { path: 'path', message: `"${path}" is not among the changed files` },
    ])
  const ids = new Set(own.map(({ eventId }) => eventId))
  const hashes = new Set(own.flatMap(({ event }) => [event.before?.sha256, event.after?.sha256]))
  return (line) => {
    const record = JSON.parse(line) as { type: string; eventId?: string } & Record<string, string>
    if (record.type === 'change') return ids.has(record.eventId ?? '')
    if (record.type === 'text') return hashes.has(record['sha256'])
    if (record.type !== 'entry' || record['kind'] !== 'change.recorded') return false
    return ids.has((JSON.parse(record['data'] ?? '{}') as { eventId?: string }).eventId ?? '')
  }
}
