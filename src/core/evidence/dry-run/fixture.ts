// A fixture, as the bundle and the delivery that it stands for. What is on the disk now stays behind: the engine has no
// parameter for it.

import { canonicalJson } from '../../../contract/canonical.ts'
import {
  bundleVersion,
  type DiagnosticCode,
  type EvidenceBundle,
  type EvidenceFile,
  evidenceLimits,
  type EvidenceMessage,
  type EvidencePart,
  evidenceRecordText,
  type EvidenceSide,
} from '../../../contract/evidence.ts'
import { patchHeadingNames } from '../../../contract/patch-headings.ts'
import type { SnapshotProofFixture } from '../../../contract/proof-fixture.ts'
import { hashText } from '../../hash.ts'
import type { ProofDelivery } from '../candidate.ts'
import { exactDigest } from '../texts/exact.ts'

type Fixture = SnapshotProofFixture
type FixturePart = Fixture['parts'][number]

/** Names of snapshots are free in a fixture; in a store they are hashes. */
const treeOf = (name: string | null) => (name === null ? null : hashText(name).slice(0, 40))

export function fixtureBundle(fixture: Fixture): EvidenceBundle {
  const { capability, windows, parts } = fixture
  const readable = windows.filter((window) => filesOf(fixture, window).length > 0)
  return {
    version: bundleVersion,
    capability: {
      schema: { supported: capability.schemaSupported, fingerprint: 'fixture' },
      writeAheadFile: capability.historyReadable ? 'read' : 'unreadable',
      session: capability.identity ? sessionOf(fixture) : null,
      store: { state: capability.store, fingerprint: capability.fingerprint },
      frozen: capability.frozen,
      formatted: capability.formatted,
    },
    messages: messagesOf(fixture),
    parts: parts.map((part) => partOf(fixture, part)),
    neighbours: [],
    windows: windows.map((window) => ({
      id: window.windowId,
      messageId: window.messageId,
      from: treeOf(window.fromSnapshot),
      to: treeOf(window.toSnapshot),
      startOrder: window.startPartOrder,
      finishOrder: window.finishPartOrder,
      changed: filesOf(fixture, window)
        .filter((file) => file.beforeContent !== file.afterContent)
        .map(({ relativePath }) => relativePath),
    })),
    files: windows.flatMap((window) =>
      filesOf(fixture, window).map((file) => fileOf(window, file)),
    ),
    failures: [],
    reads: readable.slice(0, evidenceLimits.readsPerCollect).map((window) => ({
      windowId: window.windowId,
      elapsedMs: window.readMs,
      timedOut: window.timedOut,
      bytes: bytesOf(filesOf(fixture, window)),
    })),
  }
}

const sessionOf = ({ delivery, workspaceRoot, capability }: Fixture) => ({
  id: delivery.sessionId,
  projectId: 'fixture',
  directory: capability.worktree ?? workspaceRoot,
  worktree: capability.worktree ?? workspaceRoot,
  vcs: 'git',
})

const filesOf = ({ snapshotFiles }: Fixture, { windowId }: Fixture['windows'][number]) =>
  snapshotFiles.filter((file) => file.windowId === undefined || file.windowId === windowId)

const bytesOf = (files: Fixture['snapshotFiles']) =>
  files.reduce(
    (total, { beforeContent, afterContent }) =>
      total + (beforeContent?.length ?? 0) + (afterContent?.length ?? 0),
    0,
  )

/** The prompt of the delivery, and that of somebody else. */
const prompt = 'prompt-of-the-delivery'
const otherPrompt = 'prompt-of-another-delivery'

function messagesOf(fixture: Fixture): EvidenceMessage[] {
  const { delivery, parts, windows } = fixture
  const ids = new Set([...parts, ...windows].map(({ messageId }) => messageId))
  return [...ids].sort().map((id, at) => {
    const own = parts.filter(({ messageId }) => messageId === id)
    const isOwn = id === delivery.assistantMessageId && own.every((it) => isDelivered(it, fixture))
    return {
      id,
      sessionId: own.find(({ sessionId }) => sessionId)?.sessionId ?? delivery.sessionId,
      parentId: isOwn ? prompt : otherPrompt,
      agent: own.find(({ memberName }) => memberName)?.memberName ?? delivery.memberName,
      createdAt: at,
      completedAt: null,
    }
  })
}

const isDelivered = ({ taskId, laneId }: FixturePart, { delivery }: Fixture) =>
  (taskId ?? delivery.taskId) === delivery.taskId && (laneId ?? delivery.laneId) === delivery.laneId

function partOf({ delivery, workspaceRoot }: Fixture, part: FixturePart): EvidencePart {
  const { filePath, oldString, newString, content, replaceAll, patchText } = part
  const input = { filePath, oldString, newString, content, replaceAll, patchText }
  const made: EvidencePart = {
    id: part.partId,
    messageId: part.messageId,
    sessionId: part.sessionId ?? delivery.sessionId,
    order: part.order,
    callId: part.partId,
    tool: part.tool,
    status: part.status,
    input: Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)),
    inputTruncated: part.truncated,
    metadata: {
      exists: part.exists ?? null,
      truncated: null,
      files: filesNamed(part, workspaceRoot),
    },
    startedAt: null,
    endedAt: part.endedAt ?? null,
  }
  // What is cut in a fixture is the same everywhere.
  return { ...made, recordHash: hashText(evidenceRecordText(made)) }
}

/** A patch without its text still names its file, as the result of the tool does. */
function filesNamed({ tool, filePath, patchText }: FixturePart, root: string) {
  if (tool !== 'apply_patch') return null
  const named = patchText === undefined ? [] : patchHeadingNames(patchText)
  const paths = new Set([...named, ...(filePath === undefined ? [] : [filePath])])
  const wholes = [...paths].map((path) => (path.startsWith('/') ? path : `${root}/${path}`))
  return [...new Set(wholes)].map((path) => ({ filePath: path, type: typeOf(path, patchText) }))
}

function typeOf(path: string, patchText = ''): string {
  const heading = patchText
    .split('\n')
    .find((line) => line.startsWith('*** ') && path.endsWith(line.split(': ')[1] ?? '\n'))
  return heading?.startsWith('*** Add')
    ? 'add'
    : heading?.startsWith('*** Del')
      ? 'delete'
      : 'update'
}

const fileOf = (
  window: Fixture['windows'][number],
  file: Fixture['snapshotFiles'][number],
): EvidenceFile => ({
  windowId: window.windowId,
  from: treeOf(window.fromSnapshot),
  to: treeOf(window.toSnapshot),
  path: file.relativePath,
  before: sideOf(file.beforeExists, file.beforeContent, file.beforeUnavailable, file.beforeMode),
  after: sideOf(file.afterExists, file.afterContent, file.afterUnavailable, file.afterMode),
})

/** A file that exists and has no text is unavailable, never empty. */
function sideOf(
  exists: boolean,
  text: string | undefined,
  code: DiagnosticCode | undefined,
  mode: '100644' | '100755',
): EvidenceSide {
  if (!exists) return { state: 'absent' }
  if (text === undefined || code !== undefined)
    return { state: 'unavailable', code: code ?? 'no-file-anchor' }
  return { state: 'text', text, ...exactDigest(text), mode }
}

export function fixtureDelivery(fixture: Fixture): ProofDelivery {
  const { delivery, attributionMode, parts } = fixture
  const seen = parts.filter((part) => part.seen).map((part) => partOf(fixture, part))
  return {
    attribution: attributionMode,
    runId: delivery.taskId,
    sessionId: delivery.sessionId,
    workspaceRoot: fixture.workspaceRoot,
    sessions: [{ id: delivery.sessionId, member: delivery.memberName, userMessageIds: [prompt] }],
    seenSteps: [],
    seenParts: seen.map((part) => ({
      id: part.id,
      messageId: part.messageId,
      sessionId: part.sessionId,
      tool: part.tool,
      callId: part.callId,
      inputHash: hashText(canonicalJson(part.input)),
      recordHash: hashText(evidenceRecordText(part)),
      end: 'completed',
    })),
  }
}
