/** A table of the ledger: its key, and where each column comes from in the row's payload. */
export interface Table {
  name: string
  key: readonly string[]
  /** Column by JSON name. */
  payload: Readonly<Record<string, string>>
  /** What the id of the row's owner is called here: a session's, or an organisation's that writes for itself. */
  session: 'id' | 'session_id' | 'organisation_id'
  /** Column by SQL text, where the payload has nothing to say. */
  fixed?: Readonly<Record<string, string>>
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
      ...times,
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
  },
  sandbox_reservation: {
    name: 'sandbox_reservations',
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
