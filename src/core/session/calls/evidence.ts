import type { Sql } from '../../ports.ts'
import type { ToolResult } from '../../../contract/tool.ts'
import { findRun, openRun, recordOnRun } from '../runs/rows.ts'
import { hasEnded } from '../runs/transitions.ts'
import { snapshotIdOf } from './tools/snapshot-id.ts'

/** The tools that leave evidence. Only their calls look for a run: the others are on the path of everything. */
const evidenceTools: ReadonlySet<string> = new Set([
  'verify',
  'save_snapshot',
  ...['memory_search', 'memory_get', 'memory_save', 'memory_update'],
])

interface EvidenceCall {
  tool: string
  toolCallId: string
  operationId: string
  runId: string
}

/** That of the running turn, else the session's open one; null: nothing keeps a timeline. */
export function runOfCallEvidence(sql: Sql, tool: string): string | null {
  if (!evidenceTools.has(tool)) return null
  const [turn] = sql.all<{ run_id: string | null }>(
    `select run_id from turns where state = 'running' limit 1`,
  )
  return turn?.run_id ?? openRun(sql)?.id ?? null
}

/** With the insert of the call: once, however often it runs. */
export function recordCallEvidenceBegun(sql: Sql, now: number, call: EvidenceCall): void {
  if (call.tool === 'verify') note(sql, now, call, 'verification.started', {})
}

/** With the answer that stays: once, whoever has ended the call and however often it ran before. */
export function recordCallEvidence(
  sql: Sql,
  now: number,
  call: EvidenceCall,
  end: { success: boolean; reason: string | null; data?: ToolResult['data'] },
): void {
  if (call.tool.startsWith('memory_')) return recordMemory(sql, now, call, end)
  const artifacts = recordArtifacts(sql, now, call)
  if (call.tool === 'save_snapshot') recordSnapshot(sql, now, call)
  if (call.tool !== 'verify') return
  const passed = end.success && artifacts > 0
  const reason = passed ? null : (end.reason ?? 'There was nothing to show')
  note(sql, now, call, 'verification.ended', { passed, artifacts, reason })
}

/** It may run again, and is not over. */
export function recordCallEvidenceError(
  sql: Sql,
  now: number,
  call: EvidenceCall,
  error: string,
): void {
  note(sql, now, call, 'error.recorded', { tool: call.tool, error })
}

function recordArtifacts(sql: Sql, now: number, call: EvidenceCall): number {
  const artifacts = sql.all<{ artifactId: string; path: string; sha256: string; size: number }>(
    'select id as artifactId, path, sha256, size from artifacts where operation_id = ? order by n',
    call.operationId,
  )
  for (const artifact of artifacts) note(sql, now, call, 'artifact.written', artifact)
  return artifacts.length
}

/** What was read or written, by id and revision; a refusal has done neither. */
function recordMemory(
  sql: Sql,
  now: number,
  call: EvidenceCall,
  { success, data }: { success: boolean; data?: ToolResult['data'] },
): void {
  if (!success) return
  const { items, memory } = (data ?? {}) as { items?: MemoryName[]; memory?: MemoryName }
  const memories = (items ?? (memory ? [memory] : [])).map(({ id, revision }) => ({ id, revision }))
  const isWrite = call.tool === 'memory_save' || call.tool === 'memory_update'
  note(sql, now, call, isWrite ? 'memory.written' : 'memory.read', { tool: call.tool, memories })
}

interface MemoryName {
  id: string
  revision: number
}

function recordSnapshot(sql: Sql, now: number, call: EvidenceCall): void {
  const [snapshot] = sql.all<{ snapshotId: string; target: string; bytes: number }>(
    'select id as snapshotId, target, bytes, message from snapshots where id = ?',
    snapshotIdOf(call.operationId),
  )
  if (snapshot) note(sql, now, call, 'snapshot.stored', { ...snapshot })
}

type Kind =
  | 'verification.started'
  | 'verification.ended'
  | 'artifact.written'
  | 'snapshot.stored'
  | 'error.recorded'
  | 'memory.read'
  | 'memory.written'

function note(sql: Sql, now: number, call: EvidenceCall, kind: Kind, data: object): void {
  const run = findRun(sql, call.runId)
  if (!run) return
  const { toolCallId, operationId } = call
  const late = hasEnded(run.status) ? { late: true } : {}
  recordOnRun(sql, now, run.id, kind, { ...data, toolCallId, operationId, ...late })
}
