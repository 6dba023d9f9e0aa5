import type { Decision, PermissionDecision, PermissionRequest } from '../../contract/permission.ts'
import type { GateTightening, Policy } from '../../contract/policy.ts'
import { type EvaluateOptions, evaluatePermission } from './evaluate.ts'

/** A decision as it was recorded, with everything that it was made from, but for the policy. */
export interface Recorded {
  runId: string
  seq: number
  request: PermissionRequest
  decision: PermissionDecision
  overrides?: EvaluateOptions['overrides']
  gate?: GateTightening | null
}

interface ReplayRow {
  runId: string
  seq: number
  request: PermissionRequest
  before: PermissionDecision
  after: PermissionDecision
}

export interface Replay {
  total: number
  same: number
  /** How often, per change: "allow->ask". */
  changed: Partial<Record<`${Decision}->${Decision}`, number>>
  rows: ReplayRow[]
}

/** What the policy would have decided on what was recorded. */
export function replayDecisions(recorded: readonly Recorded[], policy: Policy): Replay {
  const replay: Replay = { total: recorded.length, same: 0, changed: {}, rows: [] }
  for (const { runId, seq, request, decision: before, overrides, gate } of recorded) {
    const after = evaluatePermission(request, gate ? { ...policy, gate } : policy, {
      overrides,
      enclosure: before.enclosure,
      phases: before.phases,
    })
    if (after.decision === policyDecision(before)) {
      replay.same += 1
      continue
    }
    const change = `${policyDecision(before)}->${after.decision}` as const
    replay.changed[change] = (replay.changed[change] ?? 0) + 1
    replay.rows.push({ runId, seq, request, before, after })
  }
  return replay
}

/** Something stood in for the answer to an ask (a remembered approval, a usual host, an own tool): the policy itself asked. */
const policyDecision = ({ decision, rule }: PermissionDecision): Decision =>
  /^(grant:|(usual-host|own-tool)$)/.test(rule) ? 'ask' : decision
