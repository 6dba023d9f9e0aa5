// From tool parts to changes, without any snapshot: which file, by whom, in what order. Each becomes an event that says
// that its texts are not proven. Parts that did not complete make none: their input is only what was meant.

import type { ChangeEvent, ChangeOperation, ProvenChange } from '../../contract/change.ts'
import type {
  DeliveredSession,
  DeliveryRecord,
  EvidenceBundle,
  EvidenceMessage,
  EvidencePart,
} from '../../contract/evidence.ts'
import {
  isMutatingTool,
  namedEvidencePaths,
  evidencePathOf,
} from '../../contract/evidence-paths.ts'
import type { MutatingTool, Place } from '../../contract/evidence-paths.ts'
import { hashText } from '../hash.ts'
import { groupBy } from './group-by.ts'
import { escapeExactName } from './texts/exact.ts'
import { parsePatch, type PatchAct } from './texts/patch.ts'
import { createdWarning, pathWarning, unprovenWarnings } from './warnings.ts'

/** What the engine uses of a delivery record. */
export interface ProofDelivery extends Pick<
  DeliveryRecord,
  'attribution' | 'workspaceRoot' | 'sessions' | 'seenParts' | 'seenSteps'
> {
  runId: string
  sessionId: string
}

export interface Candidate {
  part: EvidencePart
  tool: MutatingTool
  message: EvidenceMessage | null
  session: DeliveredSession | null
  /** Null: it cannot be named safely. */
  path: string | null
  key: string
  change: ProvenChange
  /** What its patch does, by path; null: it is not understood. Parsed once for all files of the part. */
  patch: () => ReadonlyMap<string, PatchAct[]> | null
  /** Its texts are known from the tool parts alone. */
  exact: boolean
}

const candidateKey = (sessionId: string, partId: string, path: string): string =>
  ['opencode', sessionId, partId, path].join('\u0000')

export function candidatePlace({ capability }: EvidenceBundle, delivery: ProofDelivery): Place {
  const { workspaceRoot } = delivery
  return capability.session ?? { worktree: workspaceRoot, directory: workspaceRoot }
}

/** In the one order that counts: time of the message, its id, place in it, id of the part. */
export function candidatesOf(bundle: EvidenceBundle, delivery: ProofDelivery): Candidate[] {
  const messages = uniqueById(bundle.messages)
  const place = candidatePlace(bundle, delivery)
  const made = bundle.parts.flatMap((part) =>
    part.status === 'completed' && isMutatingTool(part.tool)
      ? candidatesOfPart({ part, tool: part.tool, place, delivery, messages })
      : [],
  )
  return made.sort(compareCandidates).map((candidate, seq) => numbered(candidate, seq))
}

/** A message that is there twice is not known. */
function uniqueById(messages: readonly EvidenceMessage[]): Map<string, EvidenceMessage> {
  const byId = new Map<string, EvidenceMessage>()
  const twice = new Set<string>()
  for (const message of messages) {
    if (byId.has(message.id)) twice.add(message.id)
    byId.set(message.id, message)
  }
  for (const id of twice) byId.delete(id)
  return byId
}

interface PartPlace {
  part: EvidencePart
  tool: MutatingTool
  place: Place
  delivery: ProofDelivery
  messages: Map<string, EvidenceMessage>
}

function candidatesOfPart(of: PartPlace): Candidate[] {
  const { part, tool, place, delivery, messages } = of
  const message = messages.get(part.messageId) ?? null
  const session = delivery.sessions.find(({ id }) => id === part.sessionId) ?? null
  const patch = once(() => patchActs(part, place))
  const named = new Map(namedEvidencePaths(part).map((name) => [pathOf(place, name).shown, name]))
  return [...named].map(([shown, name]) => {
    const { path } = pathOf(place, name)
    const key = candidateKey(part.sessionId, part.id, shown)
    const event = unprovenEvent({ ...of, message, session, path, shown, name, key })
    const change = { event, beforeContent: null, afterContent: null }
    return { part, tool, message, session, path, key, change, patch, exact: false }
  })
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => (made ??= { value: make() }).value
}

/** A move is about both of its paths. */
function patchActs({ input }: EvidencePart, place: Place): Map<string, PatchAct[]> | null {
  const text = input?.['patchText']
  const acts = typeof text === 'string' ? parsePatch(text) : null
  if (!acts) return null
  const named = acts.flatMap((act) => {
    const names = act.type === 'move' ? [act.path, act.to] : [act.path]
    const paths = new Set(names.map((name) => evidencePathOf(place, name) ?? ''))
    return [...paths].map((path) => ({ path, act }))
  })
  const byPath = groupBy(named, ({ path }) => path)
  return new Map([...byPath].map(([path, all]) => [path, all.map(({ act }) => act)]))
}

function pathOf(place: Place, name: string) {
  const path = evidencePathOf(place, name)
  return { path, shown: path ?? escapeExactName(name) }
}

const numbered = (candidate: Candidate, executionSeq: number): Candidate => {
  const { change } = candidate
  return { ...candidate, change: { ...change, event: { ...change.event, executionSeq } } }
}

function compareCandidates(a: Candidate, b: Candidate): number {
  return (
    (a.message?.createdAt ?? 0) - (b.message?.createdAt ?? 0) ||
    compare(a.part.messageId, b.part.messageId) ||
    a.part.order - b.part.order ||
    compare(a.part.id, b.part.id) ||
    compare(a.key, b.key)
  )
}
const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

interface EventPlace extends PartPlace {
  message: EvidenceMessage | null
  session: DeliveredSession | null
  path: string | null
  shown: string
  name: string
  key: string
}

function unprovenEvent(of: EventPlace): ChangeEvent {
  const { part, tool, delivery, message, session, shown, name, key } = of
  const operation = operationOf(part, name)
  return {
    schemaVersion: 1,
    eventId: candidateEventId(key, 'metadata-only-fallback'),
    taskId: delivery.runId,
    taskRef: delivery.runId,
    taskRefKind: 'canonical',
    phase: 'work',
    executionSeq: 0,
    sessionId: delivery.sessionId,
    memberName: session?.member ?? 'unknown',
    toolUseId: part.callId,
    source: `opencode_toolpart_${tool}`,
    operation,
    confidence: 'medium',
    workspaceRoot: delivery.workspaceRoot,
    filePath: escapeExactName(name),
    relativePath: shown,
    timestamp: new Date(part.endedAt ?? part.startedAt ?? message?.createdAt ?? 0).toISOString(),
    toolStatus: part.status,
    before: null,
    after: null,
    beforeState: sideState(operation !== 'create', `opencode-${tool}-baseline-not-captured`),
    afterState: sideState(operation !== 'delete', `opencode-${tool}-final-content-unavailable`),
    relation: null,
    oldString: shortText(part.input?.['oldString']),
    newString: shortText(part.input?.['newString']),
    linesAdded: null,
    linesRemoved: null,
    sourceRuntime: 'opencode',
    sourceProvider: 'opencode',
    sourceSessionId: part.sessionId,
    sourcePartId: part.id,
    sourceMessageId: part.messageId,
    parentUserMessageId: message?.parentId ?? null,
    attributionMethod:
      delivery.attribution === 'strict-delivery'
        ? 'delivery-ledger-taskrefs'
        : 'requested-task-marker',
    sourceImportKey: key,
    evidenceProof: 'metadata-only-fallback',
    snapshotId: null,
    snapshotSource: null,
    shapeFingerprint: null,
    supersedesEventId: null,
    warnings: warningsOf(of),
  }
}

/** The same for the same evidence, so that an import that is repeated is noticed. */
export const candidateEventId = (key: string, ...evidence: (string | null)[]): string =>
  `evt_${hashText(JSON.stringify([key, ...evidence])).slice(0, 40)}`

const sideState = (exists: boolean, unavailableReason: string) =>
  exists ? { exists, unavailableReason } : { exists }

/** Longer ones are in the proven texts, if anywhere. */
const maxSnippet = 16 * 1024
const shortText = (value: unknown): string | null =>
  typeof value === 'string' && value.length <= maxSnippet ? value : null

function operationOf({ tool, metadata }: EvidencePart, name: string): ChangeOperation {
  if (tool === 'write') return metadata.exists === false ? 'create' : 'modify'
  const type = metadata.files?.find(({ filePath }) => filePath === name)?.type
  return type === 'add' ? 'create' : type === 'delete' ? 'delete' : 'modify'
}

function warningsOf({ part, tool, path }: EventPlace): string[] {
  const warning =
    tool === 'write' && part.metadata.exists === false
      ? part.inputTruncated || part.metadata.truncated === true
        ? unprovenWarnings.unavailable
        : createdWarning
      : unprovenWarnings[tool]
  return path === null ? [warning, pathWarning] : [warning]
}
