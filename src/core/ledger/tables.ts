/**
 * Every table of libSQL: where its rows come from, and what becomes of them when their session is erased. The statements
 * that write the rows of outboxes and those that erase a session are derived from these two lists, and a test compares
 * them with the real schema: a table that is in neither fails it.
 */

/** A table of the ledger: its key, and where each column comes from in the row's payload. */
export interface Table {
  name: string
  key: readonly string[]
  /** Column by JSON name. */
  payload: Readonly<Record<string, string>>
  /** What the id of the row's owner is called here: a session's, an eval run's, or an organisation's that writes for itself. */
  session: 'id' | 'session_id' | 'organisation_id' | 'eval_run_id'
  /** Column by SQL text, where the payload has nothing to say. */
  fixed?: Readonly<Record<string, string>>
  /** SQL: rows that stay when their session is erased. ?1 is the organisation. */
  keep?: string
  /** Why all rows stay: those that the organisation writes for itself, and bills. */
  stays?: string
}

const same = (...names: string[]) => Object.fromEntries(names.map((name) => [name, name]))

const times = { created_at: 'createdAt' }

export const tables = {
  session: {
    name: 'sessions',
    key: ['id'],
    session: 'id',
    payload: {
      ...same('project', 'title', 'status', 'provider', 'generation'),
      ...times,
      member_id: 'memberId',
      sandbox_state: 'sandboxState',
      closed_at: 'closedAt',
    },
  },
  turn: {
    name: 'turns',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'state', 'reason'),
      ...times,
      run_id: 'runId',
      input_tokens: 'inputTokens',
      output_tokens: 'outputTokens',
      started_at: 'startedAt',
      ended_at: 'endedAt',
    },
  },
  call: {
    name: 'session_tool_invocations',
    key: ['session_id', 'tool_name', 'tool_call_id'],
    session: 'session_id',
    fixed: { source: `'sandbox'` },
    payload: {
      ...same('generation', 'status', 'attempts', 'input', 'output', 'error'),
      tool_name: 'tool',
      tool_call_id: 'toolCallId',
      operation_id: 'operationId',
      duration_ms: 'durationMs',
      started_at: 'startedAt',
      completed_at: 'completedAt',
      created_at: 'startedAt',
    },
  },
  artifact: {
    name: 'artifacts',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'path', 'size', 'sha256'),
      ...times,
      operation_id: 'operationId',
      content_type: 'contentType',
    },
  },
  skill_usage: {
    name: 'skill_usage',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'version', 'outcome', 'actor', 'note'),
      ...times,
      run_id: 'runId',
      skill_id: 'skillId',
    },
  },
  change_event: {
    name: 'task_change_events',
    key: ['run_id', 'event_id'],
    session: 'session_id',
    payload: {
      ...same('rank', 'operation', 'confidence', 'source', 'event', 'hash'),
      ...times,
      run_id: 'runId',
      turn_id: 'turnId',
      event_id: 'eventId',
      import_key_hash: 'keyHash',
      relative_path: 'path',
      evidence_proof: 'proof',
      source_provider: 'provider',
      before_sha256: 'beforeSha256',
      after_sha256: 'afterSha256',
      supersedes_event_id: 'supersedes',
    },
  },
  change_text: {
    name: 'change_texts',
    key: ['organisation_id', 'session_id', 'sha256'],
    session: 'session_id',
    payload: { ...same('sha256', 'size'), ...times },
  },
  run: {
    name: 'runs',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'project', 'intent', 'workflow', 'phase', 'agent', 'subagent', 'adapter'),
      ...same('model', 'status', 'outcome', 'reason'),
      ...times,
      latest_checkpoint_id: 'latestCheckpointId',
      updated_at: 'updatedAt',
      completed_at: 'completedAt',
    },
  },
  approval: {
    name: 'approvals',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'kind', 'state', 'title', 'asker', 'reason', 'rule', 'quorum', 'actor'),
      ...same('details', 'policy'),
      ...times,
      asker_id: 'askerId',
      asker_owner: 'askerOwner',
      run_id: 'runId',
      operation_hash: 'operationHash',
      deadline_at: 'deadlineAt',
      resolved_at: 'resolvedAt',
      resolution_reason: 'resolutionReason',
    },
  },
  attempt: {
    name: 'operation_attempts',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'sequence', 'executor', 'status', 'suspect', 'actor', 'reason'),
      operation_id: 'operationId',
      run_id: 'runId',
      approval_id: 'approvalId',
      reserved_at: 'reservedAt',
      finished_at: 'finishedAt',
    },
  },
  run_event: {
    name: 'run_events',
    key: ['run_id', 'seq'],
    session: 'session_id',
    payload: {
      ...same('seq', 'at', 'kind', 'data', 'hash', 'signature'),
      run_id: 'runId',
      previous_hash: 'previousHash',
    },
  },
  automation_run: {
    name: 'automation_runs',
    key: ['organisation_id', 'id'],
    session: 'session_id',
    payload: {
      ...same('id', 'state', 'outcome', 'payload'),
      ...times,
      configuration_id: 'configurationId',
      completion_id: 'completionId',
      completed_at: 'completedAt',
    },
  },
  webhook_delivery: {
    name: 'webhook_deliveries',
    key: ['webhook_id', 'id'],
    session: 'session_id',
    payload: {
      ...same('id', 'event', 'state', 'attempts', 'error'),
      ...times,
      webhook_id: 'webhookId',
      run_id: 'runId',
      last_status: 'lastStatus',
      updated_at: 'updatedAt',
    },
  },
  snapshot: {
    name: 'snapshots',
    key: ['id'],
    session: 'session_id',
    payload: {
      ...same('id', 'provider', 'message', 'bytes'),
      ...times,
      configuration_id: 'configurationId',
      operation_id: 'operationId',
    },
    // A configuration's base stays, wherever it came from.
    keep: `configuration_id is not null or id in (select base_snapshot_id from configurations
      where organisation_id = ?1 and base_snapshot_id is not null)`,
  },
  eval_run: {
    name: 'eval_runs',
    key: ['id'],
    session: 'id',
    payload: {
      ...same('project', 'dataset', 'digest', 'targets', 'status', 'reason', 'attempts'),
      ...same('passed', 'errors', 'score', 'hash', 'tried'),
      ...times,
      member_id: 'memberId',
      ended_at: 'endedAt',
    },
  },
  eval_result: {
    name: 'eval_results',
    key: ['eval_run_id', 'n'],
    session: 'eval_run_id',
    payload: {
      ...same('n', 'target', 'repetition', 'score', 'verdict', 'error', 'row'),
      ...times,
      attempt_session_id: 'sessionId',
      eval_id: 'evalId',
    },
  },
  model_usage: {
    name: 'model_usage',
    stays: 'Bills: what an erased session has used still counts',
    key: ['session_id', 'day', 'model'],
    session: 'session_id',
    payload: {
      ...same('day', 'model', 'project', 'requests'),
      member_id: 'memberId',
      input_tokens: 'inputTokens',
      output_tokens: 'outputTokens',
      money_micros: 'moneyMicros',
    },
  },
  sandbox_reservation: {
    name: 'sandbox_reservations',
    stays: 'Bills: what the sandboxes of an erased session have cost still counts',
    key: ['organisation_id', 'session_id', 'generation'],
    session: 'organisation_id',
    payload: {
      ...same('generation', 'provider', 'project', 'outcome', 'reason', 'seconds', 'money'),
      session_id: 'sessionId',
      granted_at: 'grantedAt',
      connected_at: 'connectedAt',
      ended_at: 'endedAt',
    },
  },
  sandbox_action: {
    name: 'sandbox_actions',
    stays: 'The record of what the firewall did and was told',
    key: ['organisation_id', 'outbox_seq'],
    session: 'organisation_id',
    payload: {
      ...same('action', 'generation', 'provider', 'reason', 'actor'),
      ...times,
      session_id: 'sessionId',
    },
  },
} as const satisfies Record<string, Table>
export type Kind = keyof typeof tables

/**
 * The tables that no outbox row is written to. claim: its rows say which session holds which content, and go with the
 * session; content: it goes with the last session that holds it.
 */
export const otherTables: Readonly<Record<string, 'claim' | 'content' | { stays: string }>> = {
  blob_claims: 'claim',
  blob_index: 'content',
  blobs: 'content',
  outbox_watermarks: {
    stays: 'Without content. Marked as erased it keeps late rows out, and goes a day later',
  },
  organisations: { stays: 'Of no session' },
  api_keys: { stays: 'Of no session' },
  members: { stays: 'Of no session' },
  audit: { stays: 'Of no session' },
  agents: { stays: 'Of no session' },
  agent_revisions: { stays: 'Of no session' },
  profiles: { stays: 'Of no session' },
  profile_revisions: { stays: 'Of no session' },
  configurations: { stays: 'Of no session' },
  secrets: { stays: 'Of no session' },
  policies: { stays: 'Of no session' },
  skills: { stays: 'Of no session' },
  skill_versions: { stays: 'Of no session' },
  skill_attachments: { stays: 'Of no session' },
  skill_changes: { stays: 'Of no session' },
  skill_proposals: { stays: 'What a session has given to the registry' },
  skill_votes: { stays: 'Of no session' },
  webhooks: { stays: 'Of no session' },
  eval_baselines: { stays: 'Of no session' },
  promotions: { stays: 'The record of what was released, and by which run' },
  promotion_votes: { stays: 'Of no session' },
  abilities: { stays: 'Of no session' },
  ability_files: { stays: 'Of no session' },
  memories: { stays: 'Of no session' },
  memory_places: { stays: 'Of no session' },
  memory_revisions: { stays: 'Of no session' },
  phase_artifacts: { stays: 'Of no session' },
  phase_approvals: { stays: 'Of no session' },
  provider_credentials: { stays: 'Of no session' },
}
