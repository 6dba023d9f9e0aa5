// Turns rows of OpenCode's database into the messages, tool parts and steps of a bundle. Each row is taken as it is or
// left out and named; nothing is completed by a guess.

import { createHash } from 'node:crypto'
import {
  type EvidenceFailure,
  type EvidenceMessage,
  type EvidencePart,
  evidenceRecordText,
  type EvidenceWindow,
  type NeighbourPart,
} from '../../src/contract/evidence.ts'
import {
  isMutatingTool,
  type Place,
  touchedEvidencePaths,
} from '../../src/contract/evidence-paths.ts'
import type { Row } from './history.ts'

const needed: Record<string, readonly string[]> = {
  session: ['id', 'project_id', 'parent_id', 'directory', 'version'],
  message: ['id', 'session_id', 'time_created', 'data'],
  part: ['id', 'message_id', 'session_id', 'time_created', 'time_updated', 'data'],
  project: ['id', 'worktree', 'vcs'],
}

/** Whether every column that is read is there, and a name for exactly this form. */
export function historySchema(rows: readonly Row[]): { supported: boolean; fingerprint: string } {
  const columns = rows.map(({ tbl, col, type }) => `${tbl}.${col}:${type}`)
  const has = new Set(rows.map(({ tbl, col }) => `${tbl}.${col}`))
  const hash = createHash('sha256').update(columns.join('\n')).digest('hex').slice(0, 16)
  return {
    supported: Object.entries(needed).every(([table, names]) =>
      names.every((name) => has.has(`${table}.${name}`)),
    ),
    fingerprint: `opencode-sqlite:${hash}`,
  }
}

/** Beyond these a name is nobody's. */
const isId = (value: unknown): value is string =>
  typeof value === 'string' && value.length >= 1 && value.length <= 200
const latest = 8_640_000_000_000_000
const isTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= latest
const timeOf = (value: unknown): number | null => (isTime(value) ? value : null)
const flagOf = (value: unknown): boolean | null => (value === 1 ? true : value === 0 ? false : null)

export const historyFailure = (
  code: EvidenceFailure['code'],
  of: Partial<Omit<EvidenceFailure, 'code'>> = {},
): EvidenceFailure => ({ code, windowId: null, path: null, partId: null, ...of })

export interface Told {
  messages: EvidenceMessage[]
  parts: EvidencePart[]
  windows: EvidenceWindow[]
  failures: EvidenceFailure[]
}

export function tellHistoryRows(messages: readonly Row[], parts: readonly Row[]): Told {
  const told: Told = { messages: [], parts: [], windows: [], failures: [] }
  for (const row of messages) {
    const message = messageOf(row)
    if (message) told.messages.push(message)
    else told.failures.push(historyFailure('malformed-row'))
  }
  for (const [messageId, rows] of Map.groupBy(parts, (row) => row['messageId'])) {
    if (!isId(messageId)) continue
    const steps = windowsOf(messageId, rows)
    told.windows.push(...steps)
    for (const row of rows) {
      if (row['valid'] === 1 && row['type'] !== 'tool') continue
      const part = partOf(row)
      const partId = isId(row['id']) ? row['id'] : null
      if (part) told.parts.push({ ...part, ...recordHashOf(part, row) })
      else told.failures.push(historyFailure('malformed-row', { partId }))
    }
  }
  return told
}

/** Rows of whole messages: if the limit has cut one, it and those after it wait for the next page, but for the first. */
export function wholeHistoryMessages(
  messages: readonly Row[],
  parts: readonly Row[],
  most: number,
): { messages: readonly Row[]; parts: readonly Row[]; cut: 'none' | 'after' | 'inside' } {
  if (parts.length <= most) return { messages, parts, cut: 'none' }
  const last = parts[most]?.['messageId']
  const at = messages.findIndex(({ id }) => id === last)
  const isKept = at < 1
  return {
    messages: messages.slice(0, isKept ? 1 : at),
    parts: parts.slice(0, most).filter(({ messageId }) => isKept || messageId !== last),
    cut: isKept ? 'inside' : 'after',
  }
}

/** Of a turn that still runs: what comes before the first message that is not done. What is after it waits. */
export function completeHistoryRows(told: Told): Told {
  const end = told.messages.findIndex(({ completedAt }) => completedAt === null)
  if (end === -1) return told
  const messages = told.messages.slice(0, end)
  const done = new Set(messages.map(({ id }) => id))
  const isDone = ({ messageId }: { messageId: string }) => done.has(messageId)
  const { parts, windows, failures } = told
  return { messages, parts: parts.filter(isDone), windows: windows.filter(isDone), failures }
}

function messageOf(row: Row): EvidenceMessage | null {
  const { id, sessionId, parentId, agent, createdAt, completedAt } = row
  if (!isId(id) || !isId(sessionId) || !isTime(createdAt)) return null
  const name = typeof agent === 'string' && agent.length <= 200 ? agent : null
  return {
    ...{ id, sessionId, createdAt, agent: name },
    parentId: isId(parentId) ? parentId : null,
    completedAt: timeOf(completedAt),
  }
}

const statuses = ['pending', 'running', 'completed', 'error'] as const

function partOf(row: Row): EvidencePart | null {
  const { id, messageId, sessionId, place, callId, tool } = row
  const status = statuses.find((each) => each === row['status'])
  if (!isId(id) || !isId(messageId) || !isId(sessionId) || !isId(callId) || !isId(tool)) return null
  if (typeof place !== 'number' || status === undefined) return null
  const whole = objectOf(parsed(row['input']))
  const hasInput = isMutatingTool(tool)
  return {
    ...{ id, messageId, sessionId, order: place, callId, tool, status },
    input: hasInput ? whole : null,
    inputTruncated: hasInput && (whole === null || row['isCut'] === 1),
    metadata: {
      exists: flagOf(row['existed']),
      truncated: flagOf(row['truncated']),
      files: filesOf(parsed(row['files'])),
    },
    startedAt: timeOf(row['startedAt']),
    endedAt: timeOf(row['endedAt']),
  }
}

/** Of what was read whole, also if it is cut afterwards. */
function recordHashOf(part: EvidencePart, row: Row): Pick<EvidencePart, 'recordHash'> {
  if (!isMutatingTool(part.tool)) return {}
  const text = row['isCut'] === 1 ? null : evidenceRecordText(part)
  return { recordHash: text && createHash('sha256').update(text).digest('hex') }
}

/** The same as the text that is read from its row later says, of a part that is heard from OpenCode. */
export function historyRecordText(state: { input?: unknown; metadata?: object }): string {
  const { exists, truncated, files } = (state.metadata ?? {}) as Record<string, unknown>
  const flag = (value: unknown) => (typeof value === 'boolean' ? value : null)
  return evidenceRecordText({
    input: objectOf(state.input),
    metadata: { exists: flag(exists), truncated: flag(truncated), files: filesOf(files) },
  })
}

const objectOf = (value: unknown): Record<string, unknown> | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null

function filesOf(value: unknown): EvidencePart['metadata']['files'] {
  if (!Array.isArray(value) || value.length > 1000) return null
  const files = value.flatMap((file: unknown) => {
    const { filePath, type } = (file ?? {}) as { filePath?: unknown; type?: unknown }
    return typeof filePath === 'string' && filePath !== '' && filePath.length <= 4096
      ? [{ filePath, type: typeof type === 'string' ? type.slice(0, 40) : '' }]
      : []
  })
  return files.length === value.length ? files : null
}

function parsed(text: unknown): unknown {
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const isTree = (value: unknown): value is string =>
  typeof value === 'string' && /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(value)

/** A start and the next finish are one step. A start that has another start after it was never finished. */
function windowsOf(messageId: string, rows: readonly Row[]): EvidenceWindow[] {
  const windows: EvidenceWindow[] = []
  for (const { id, type, place, snapshot } of rows) {
    if (typeof place !== 'number' || !isId(id)) continue
    const hash = isTree(snapshot) ? snapshot : null
    const open = windows.at(-1)
    if (type === 'step-start')
      windows.push({
        ...{ id, messageId, from: hash, to: null },
        ...{ startOrder: place, finishOrder: null, changed: [] },
      })
    else if (type === 'step-finish' && open?.finishOrder === null)
      Object.assign(open, { to: hash, finishOrder: place })
  }
  return windows
}

export function historyNeighbours(place: Place, rows: readonly Row[]): NeighbourPart[] {
  return rows.flatMap((row) => partOf({ ...row, place: 0 }) ?? []).map(neighbourOf(place))
}

export const neighbourOf =
  (place: Place) =>
  (part: EvidencePart): NeighbourPart => {
    const { id, messageId, sessionId, tool, startedAt, endedAt } = part
    return {
      id,
      messageId,
      sessionId,
      tool,
      startedAt,
      endedAt,
      paths: touchedEvidencePaths(place, part),
    }
  }

export interface Page {
  told: Told
  /** Of messages that the next page begins with, as far as they may have run beside those of this one. */
  leftOut: EvidencePart[]
  /** The last message of this page, if there are more. */
  next: string | null
}

/** Whole messages, in order, until the next one would bring too many steps that change files, or too much. */
export function firstHistoryPage(told: Told, most: { windows: number; parts: number }): Page {
  const byMessage = Map.groupBy(told.parts, ({ messageId }) => messageId)
  const taken = new Set<string>()
  let windows = 0
  let parts = 0
  for (const { id } of told.messages) {
    const own = byMessage.get(id) ?? []
    windows += own.some(({ tool }) => isMutatingTool(tool)) ? 1 : 0
    parts += own.length
    if (taken.size > 0 && (windows > most.windows || parts > most.parts)) break
    taken.add(id)
  }
  const isTaken = ({ messageId }: { messageId: string }) => taken.has(messageId)
  const messages = told.messages.filter(({ id }) => taken.has(id))
  const until = Math.max(...messages.map(({ completedAt }) => completedAt ?? Infinity))
  return {
    told: {
      ...{ messages, failures: told.failures },
      parts: told.parts.filter(isTaken),
      windows: told.windows.filter(isTaken),
    },
    leftOut: told.parts.filter((part) => !isTaken(part) && (part.startedAt ?? 0) <= until),
    next: messages.length < told.messages.length ? (messages.at(-1)?.id ?? null) : null,
  }
}
