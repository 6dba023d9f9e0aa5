import { PermissionRecord } from '../../contract/permission-record.ts'
import type { Policy } from '../../contract/policy.ts'
import {
  maxReplayDifferences,
  type PolicyReplay,
  type PolicyReplayed,
  type ReplayDifference,
} from '../../contract/policy-replay.ts'
import type { Db } from '../ports.ts'
import { withGateRules } from '../policy/evaluate.ts'
import { replayDecisions } from '../policy/replay.ts'
import { policyOrBuiltin, policyFromBuiltin, sandboxDefault } from '../policy/builtin-policy.ts'
import {
  mustParsePolicy,
  policyOf,
  findNewestPolicy,
  loadPolicyVersion,
  noPolicy,
} from '../registry/policies/policies.ts'
import {
  type RecordedRow,
  recordedDecisions,
  type Selection,
} from '../registry/policies/recorded.ts'

/** So many are decided before others are served. */
const atOnce = 10

/** What a policy would have decided on what sessions of the organisation have asked. Stores nothing. */
export async function replayPolicy(
  { db, now, pause }: { db: Db; now: number; pause: () => Promise<void> },
  organisationId: string,
  input: PolicyReplay,
): Promise<PolicyReplayed> {
  const replay = new Replay(await candidateOf(db, organisationId, input))
  // One more than wanted tells whether there are more.
  const pages = recordedDecisions(db, organisationId, selectionOf(input, now), input.limit + 1)
  let left = input.limit
  for await (const rows of pages) {
    for (let from = 0; from < Math.min(rows.length, left); from += atOnce) {
      replay.add(rows.slice(from, Math.min(from + atOnce, left)))
      await pause()
    }
    replay.result.truncated ||= rows.length > left
    left -= rows.length
  }
  return replay.result
}

const selectionOf = ({ runIds, from = 0, to }: PolicyReplay, now: number): Selection =>
  runIds ? { runIds } : { from, to: to ?? now + 1 }

interface Candidate {
  name: string
  version: number
  /** Operations of the API have a built-in policy of their own. */
  policyFor(record: PermissionRecord): Policy
}

async function candidateOf(
  db: Db,
  organisationId: string,
  { source, format, version, project }: PolicyReplay,
): Promise<Candidate> {
  const owner = { organisationId, project: project ?? null }
  if (source !== undefined) {
    const document = mustParsePolicy(source, format)
    const newest = await findNewestPolicy(db, owner)
    return candidate(policyFromBuiltin(document, (newest?.version ?? 0) + 1))
  }
  if (version === undefined) return candidate(null)
  const stored = await loadPolicyVersion(db, owner, version)
  if (stored.removed) throw noPolicy()
  return candidate(policyOf(stored))
}

/** Each made once: its patterns are read once per object. */
function candidate(policy: Policy | null): Candidate {
  const { name, version } = policy ?? sandboxDefault
  const gate = policyOrBuiltin(policy, 'gate')
  const operation = policyOrBuiltin(policy, 'operation')
  return {
    name,
    version,
    policyFor: ({ operationId }) => (operationId === null ? gate : operation),
  }
}

/**
 * Adds up one replay, page by page. A decision that did not come from a policy, or cannot be read, is counted as skipped
 * and not judged. `replayPolicy` above makes it, feeds it and returns its result.
 */
class Replay {
  readonly result: PolicyReplayed
  readonly #candidate: Candidate
  /** A policy's patterns are read once per object, so each session's lists make one object only. */
  readonly #tightened = new Map<string, Policy>()

  constructor(candidate: Candidate) {
    this.#candidate = candidate
    this.result = {
      policy: { name: candidate.name, version: candidate.version },
      total: 0,
      same: 0,
      changed: {},
      rows: [],
      skipped: { grant: 0, state: 0, unreadable: 0 },
      truncated: false,
      lastAt: null,
    }
  }

  add(rows: readonly RecordedRow[]): void {
    for (const row of rows) {
      const record = parseRecord(row.data)
      if (record?.by === 'policy' && !record.hidden) this.#replay(row, record)
      else this.result.skipped[skippedAs(record)] += 1
      this.result.lastAt = row.at
    }
  }

  #replay(row: RecordedRow, record: PermissionRecord): void {
    const { request, overrides, decision, reason, rule, policy, enclosure, phases } = record
    const { runId, seq } = row
    const recorded = {
      runId,
      seq,
      request,
      overrides,
      decision: { decision, reason, rule, policy, enclosure, ...(phases && { phases }) },
    }
    const replayed = replayDecisions([recorded], this.#policyFor(record))
    this.result.total += replayed.total
    this.result.same += replayed.same
    for (const [change, count] of Object.entries(replayed.changed))
      this.result.changed[change] = (this.result.changed[change] ?? 0) + count
    for (const { after } of replayed.rows)
      if (this.result.rows.length < maxReplayDifferences)
        this.result.rows.push(differenceOf(row, record, after))
  }

  #policyFor(record: PermissionRecord): Policy {
    const policy = this.#candidate.policyFor(record)
    if (record.gate === null) return policy
    const { deny, ask } = record.gate
    const key = JSON.stringify([policy.name, policy.builtin ?? '', deny, ask])
    // When a question would end does not change what is asked.
    const known =
      this.#tightened.get(key) ?? withGateRules(policy, { deny, ask, askTimeoutSeconds: 1 })
    this.#tightened.set(key, known)
    return known
  }
}

const skippedAs = (record: PermissionRecord | null) =>
  !record || record.by === 'policy' ? 'unreadable' : record.by

function parseRecord(text: string): PermissionRecord | null {
  try {
    return PermissionRecord.safeParse(JSON.parse(text)).data ?? null
  } catch {
    return null
  }
}

function differenceOf(
  { runId, sessionId, seq, at }: RecordedRow,
  { request, decision, rule }: PermissionRecord,
  after: { decision: ReplayDifference['after']; rule: string; reason: string },
): ReplayDifference {
  return {
    runId: runId as ReplayDifference['runId'],
    sessionId: sessionId as ReplayDifference['sessionId'],
    seq,
    at,
    tool: request.tool,
    category: request.category,
    before: decision,
    after: after.decision,
    ruleBefore: rule,
    ruleAfter: after.rule,
    reasonAfter: after.reason,
  }
}
