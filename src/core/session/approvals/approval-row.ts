import type { ApprovalState } from '../../../contract/approval.ts'

export interface ApprovalRow {
  n: number
  id: string
  run_id: string
  kind: 'gate' | 'operation'
  state: ApprovalState
  asker_kind: 'sandbox' | 'key'
  asker_id: string
  asker_owner: string | null
  subject: string
  title: string
  operation: string
  operation_hash: string
  decision_seq: number
  reason: string
  rule: string
  policy: string
  group_keys: string | null
  quorum: number
  escalates_at: number | null
  escalation_keys: string | null
  escalated: number
  resumable: number
  created_at: number
  deadline_at: number
  resolved_at: number | null
  actor: string | null
  actor_owner: string | null
  resolution_reason: string | null
}
