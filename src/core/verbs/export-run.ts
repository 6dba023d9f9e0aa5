import type { ChangeEvent } from '../../contract/change.ts'
import { AppError } from '../../contract/error.ts'
import type { ExportQuery } from '../../contract/export.ts'
import {
  bundleLines,
  type RunContent,
  type StoredChange,
  bundleStatement,
} from '../export/bundle.ts'
import { authoredFiles } from '../export/authorship.ts'
import { excerptLines, excerptStatement } from '../export/excerpt.ts'
import { agentTraceFormat, gitAiFormat, type Written } from '../export/formats.ts'
import { provenanceStatement } from '../export/provenance.ts'
import type { Blobs, Clock, Crypto } from '../ports.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SessionApi } from '../session/session.ts'
import type { TimelineRow } from '../session/runs/timeline.ts'

interface Ports {
  session: SessionApi
  blobs: () => Blobs
  crypto: Crypto
  now: Clock
  /** Stored texts are whole UTF-8: the engine has compared their bytes. */
  textOf: (bytes: Uint8Array) => string
}
export interface Exported {
  contentType: string
  fileName: string
  text: string
}

/** A run as one file. What the caller may not see is refused by the session. */
export async function exportRun(
  ports: Ports,
  caller: Caller,
  runId: string,
  { format, texts, path }: ExportQuery,
): Promise<Exported> {
  if (format === 'excerpt' && path === undefined)
    throw new AppError('unprocessable', 'An excerpt is of one file: name it in path', [
      { path: 'path', message: 'is needed' },
    ])
  const content = await contentOf(ports, caller, runId, format === 'bundle' && texts === 'hashes')
  if (format === 'bundle') return signedBundle(ports, content, texts)
  if (format === 'excerpt') return signedExcerpt(ports, content, path ?? '')
  if (format === 'slsa') return signedProvenance(ports, caller, content)
  const written = await writtenBy(ports, caller, content)
  return format === 'git-ai'
    ? {
        contentType: 'text/plain; charset=utf-8',
        fileName: `${runId}.git-ai.txt`,
        text: gitAiFormat(written),
      }
    : {
        contentType: 'application/json',
        fileName: `${runId}.agent-trace.json`,
        text: `${JSON.stringify(agentTraceFormat(written), null, 2)}\n`,
      }
}

function signedBundle(
  ports: Ports,
  content: RunContent,
  texts: ExportQuery['texts'],
): Promise<Exported> {
  const lines = bundleLines(content)
  const statement = bundleStatement(content, lines, { texts, now: ports.now() })
  return signed(ports, `${content.run.id}.intoto.jsonl`, statement, lines)
}

function signedExcerpt(ports: Ports, content: RunContent, path: string): Promise<Exported> {
  const lines = bundleLines(content)
  const shown = excerptLines(content, lines, path)
  const statement = excerptStatement(content, lines, { path, shown, now: ports.now() })
  const name = `${content.run.id}.excerpt.intoto.jsonl`
  const written = shown.map((line) => JSON.stringify(line))
  return signed(ports, name, statement, written)
}

async function signedProvenance(
  ports: Ports,
  caller: Caller,
  content: RunContent,
): Promise<Exported> {
  const { session } = ports
  const { run } = await session.runs.get(caller, content.run.id)
  const { repository } = await session.self.view(caller)
  const { intent, model, agent, createdAt, completedAt } = run
  const events = countingEvents(content.changes)
  const of = { intent, model, agent, repository, createdAt, completedAt }
  const statement = provenanceStatement(content, events, of)
  return signed(ports, `${content.run.id}.slsa.intoto.jsonl`, statement, [])
}

async function signed(
  { crypto }: Ports,
  fileName: string,
  statement: object,
  lines: readonly string[],
): Promise<Exported> {
  const envelope = await crypto.attest(JSON.stringify(statement))
  if (!envelope)
    throw new AppError('not_configured', 'Cannot sign the bundle: GANTRY_EXPORT_KEYS is not set', [
      { path: 'GANTRY_EXPORT_KEYS', message: 'is not set' },
    ])
  const text = [JSON.stringify(envelope), ...lines, ''].join('\n')
  return { contentType: 'application/jsonl', fileName, text }
}

async function contentOf(
  ports: Ports,
  caller: Caller,
  runId: string,
  hashesOnly: boolean,
): Promise<RunContent> {
  const { session } = ports
  const { run, approvals } = await session.runs.get(caller, runId)
  const { id, sessionId, project, status } = run
  const changes = await allChanges(session, caller, runId)
  return {
    run: { id, sessionId, project, status },
    entries: await allEntries(session, caller, runId),
    approvals,
    changes,
    texts: hashesOnly ? new Map<string, string>() : await textsOf(ports, caller, changes),
    policy: await session.gate.policy(caller),
  }
}

async function allEntries(
  session: SessionApi,
  caller: Caller,
  runId: string,
): Promise<TimelineRow[]> {
  const entries: TimelineRow[] = []
  for (;;) {
    const next = await session.runs.stored(caller, runId, entries.at(-1)?.seq ?? 0)
    if (next.length === 0) return entries
    entries.push(...next)
  }
}

/** Also those that a better one has superseded: each has its entry in the timeline. */
async function allChanges(
  session: SessionApi,
  caller: Caller,
  runId: string,
): Promise<StoredChange[]> {
  const changes: StoredChange[] = []
  for (let after = 0; ;) {
    const next = await session.evidence.stored(caller, runId, after)
    const last = next.at(-1)
    if (!last) return changes
    changes.push(...next.map(({ eventId, hash, event }) => ({ eventId, hash, event })))
    after = last.n
  }
}

/** A text that is not stored any more is left out; whoever verifies the bundle is told. */
async function textsOf(
  { blobs, textOf }: Ports,
  caller: Caller,
  changes: readonly StoredChange[],
): Promise<Map<string, string>> {
  const events = changes.map(({ event }) => JSON.parse(event) as ChangeEvent)
  const refs = events.flatMap(({ before, after }) => [before, after])
  const texts = new Map<string, string>()
  const store = blobs()
  for (const ref of refs) {
    if (!ref || texts.has(ref.sha256)) continue
    const bytes = await store.get(caller.organisationId, ref.sha256)
    if (bytes) texts.set(ref.sha256, textOf(bytes))
  }
  return texts
}

/** In the order in which the tools ended. What was recorded again with better evidence counts once. */
function countingEvents(changes: readonly StoredChange[]): ChangeEvent[] {
  const events = changes.map(({ event }) => JSON.parse(event) as ChangeEvent)
  const keys = new Map(events.map(({ eventId, sourceImportKey }) => [eventId, sourceImportKey]))
  // What another agent says that it supersedes counts only for its own key.
  const superseded = new Set(
    events.flatMap(({ supersedesEventId: id, sourceImportKey: key }) =>
      id !== null && key !== null && keys.get(id) === key ? [id] : [],
    ),
  )
  return events
    .filter(({ eventId }) => !superseded.has(eventId))
    .toSorted((a, b) => Date.parse(a.timestamp) - Date.parse(b.timestamp))
}

async function writtenBy(ports: Ports, caller: Caller, content: RunContent): Promise<Written> {
  const { run } = await ports.session.runs.get(caller, content.run.id)
  const events = countingEvents(content.changes)
  return {
    runId: run.id,
    sessionId: run.sessionId,
    model: run.model,
    at: run.updatedAt,
    files: authoredFiles(events, content.texts),
  }
}
