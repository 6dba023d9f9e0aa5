import { createAttestationKeys } from '../../src/adapters/attestation-keys.ts'
import type { SecretKey } from '../../src/adapters/secret-key.ts'
import type { ExportPredicate } from '../../src/contract/export.ts'
import { fixtureBundle, fixtureDelivery } from '../../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../../src/core/evidence/prove.ts'
import { bundleLines, type RunContent, bundleStatement } from '../../src/core/export/bundle.ts'
import { hashText } from '../../src/core/hash.ts'
import { timelineHash, firstHash, type TimelineRow } from '../../src/core/session/runs/timeline.ts'
import { edit, file, fixture, write } from './proof-fixtures.ts'

const runId = 'run_1'

/** A timeline as the session appends it. */
function chainOf(entries: readonly [kind: string, data: object][]): TimelineRow[] {
  const rows: TimelineRow[] = []
  for (const [at, [kind, value]] of entries.entries()) {
    const previous_hash = rows.at(-1)?.hash ?? firstHash(runId)
    const entry = { seq: at + 1, at: 1000 + at, kind, data: JSON.stringify(value), previous_hash }
    rows.push({ ...entry, hash: timelineHash(entry) })
  }
  return rows
}

/** A run that has edited one file and created another, both proven. */
export function provenRun(): RunContent {
  const made = fixture({
    parts: [edit(), write('ä\nb\n', { partId: 'part-2', order: 2, filePath: 'new.ts' })],
    snapshotFiles: [
      file('const value = 1\n', 'const value = 2\n'),
      file(null, 'ä\nb\n', { relativePath: 'new.ts' }),
    ],
  })
  const proven = proveChanges({
    bundle: fixtureBundle(made),
    delivery: fixtureDelivery(made),
    mode: 'full',
  })
  const changes = proven.changes.map(({ event }) => {
    const stored = JSON.stringify(event)
    return { eventId: event.eventId, hash: hashText(stored), event: stored }
  })
  const texts = new Map<string, string>()
  for (const { event, beforeContent, afterContent } of proven.changes) {
    if (event.before && beforeContent !== null) texts.set(event.before.sha256, beforeContent)
    if (event.after && afterContent !== null) texts.set(event.after.sha256, afterContent)
  }
  return {
    run: { id: runId, sessionId: 'ses_1', project: 'default', status: 'running' },
    entries: chainOf([
      ['run.created', { intent: 'x' }],
      ['permission-decision', { decision: 'allow' }],
      ...changes.map(
        ({ eventId, hash }) => ['change.recorded', { eventId, hash }] as [string, object],
      ),
      ['run.stopped', {}],
    ]),
    approvals: [{ id: 'apr_1', status: 'approved' }],
    changes,
    texts,
    policy: { name: 'sandbox-default', version: 2, extends: 'none' },
  }
}

export async function signedText(
  content: RunContent,
  key: SecretKey,
  texts: ExportPredicate['texts'] = 'full',
  change: (statement: ReturnType<typeof bundleStatement>) => object = (statement) => statement,
): Promise<string> {
  const lines = bundleLines(content)
  const statement = change(bundleStatement(content, lines, { texts, now: 1 }))
  const envelope = await createAttestationKeys([key]).attest(JSON.stringify(statement))
  return [JSON.stringify(envelope), ...lines, ''].join('\n')
}
