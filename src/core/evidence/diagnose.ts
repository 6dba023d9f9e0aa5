// What is told beside the decisions. A diagnostic explains; it never proves, and it holds no content.

import type { Diagnostic } from '../../contract/change.ts'
import {
  type DiagnosticCode,
  type EvidenceBundle,
  type EvidencePart,
  evidenceLimits,
  type ProofMode,
} from '../../contract/evidence.ts'
import { isMutatingTool, type Place, touchedEvidencePaths } from '../../contract/evidence-paths.ts'
import { groupBy } from './group-by.ts'
import type { Ended } from './states.ts'
import { escapeExactName } from './texts/exact.ts'
import { isReader } from './windows.ts'

interface Told {
  bundle: EvidenceBundle
  mode: ProofMode
  place: Place
  ends: readonly Ended[]
}

const maxDiagnostics = 1000

export function diagnose(told: Told): Diagnostic[] {
  const { bundle, mode, ends } = told
  const ofParts = bundle.parts.flatMap(partRemark)
  const all = [...ends.flatMap((end) => endRemarks(end, told)), ...ofParts]
  if (mode !== 'off') all.push(...readRemarks(bundle), ...extraPaths(told), ...failures(bundle))
  return all.slice(0, maxDiagnostics)
}

const remark = (
  code: DiagnosticCode,
  at: { partId?: string | null; path?: string | null; windowId?: string | null } = {},
): Diagnostic => ({
  code,
  partId: at.partId ?? null,
  path: at.path == null ? null : escapeExactName(at.path),
  windowId: at.windowId ?? null,
})

function endRemarks(end: Ended, { place }: Told): Diagnostic[] {
  const { part, path, change } = end.candidate
  const at = { partId: part.id, path: change.event.relativePath, windowId: end.window?.id ?? null }
  const codes: DiagnosticCode[] = end.state === 'skipped' ? [end.reason] : []
  if (end.state === 'upgraded' && end.remark) codes.push(end.remark)
  if (end.state === 'upgraded' && end.change.event.warnings.length > 0)
    codes.push('warning-preserved')
  if (path !== null && isOutside(path, place)) codes.push('path-outside-session')
  return codes.map((code) => remark(code, at))
}

function isOutside(path: string, { worktree, directory }: Place): boolean {
  const folder = directory.replace(/\/+$/, '')
  return !`${worktree.replace(/\/+$/, '')}/${path}`.startsWith(`${folder}/`)
}

function partRemark({ id, tool, status }: EvidencePart): Diagnostic[] {
  if (isReader(tool)) return []
  if (!isMutatingTool(tool)) return [remark('unmodelled-tool', { partId: id })]
  return status === 'completed' ? [] : [remark('tool-not-completed', { partId: id })]
}

const readRemarks = ({ reads }: EvidenceBundle): Diagnostic[] =>
  reads
    .filter(({ elapsedMs }) => elapsedMs > evidenceLimits.slowReadMs)
    .map(({ windowId }) => remark('read-slow', { windowId }))

/** What changed in a window and no tool part names: no event is made of it. */
function extraPaths({ bundle, place }: Told): Diagnostic[] {
  const named = new Map(
    [...groupBy(bundle.parts, ({ messageId }) => messageId)].map(([messageId, parts]) => [
      messageId,
      new Set(parts.flatMap((part) => touchedEvidencePaths(place, part))),
    ]),
  )
  const extra: Diagnostic[] = []
  for (const { id, messageId, changed } of bundle.windows)
    for (const path of changed) {
      if (named.get(messageId)?.has(path)) continue
      if (extra.length === maxDiagnostics) return extra
      extra.push(remark('extra-snapshot-path', { path, windowId: id }))
    }
  return extra
}

const failures = ({ failures: told }: EvidenceBundle): Diagnostic[] =>
  told.map(({ code, partId, path, windowId }) => remark(code, { partId, path, windowId }))
