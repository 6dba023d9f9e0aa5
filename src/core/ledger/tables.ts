/** A table of the ledger: its key, and where each column comes from in the row's payload. */
export interface Table {
  name: string
  key: readonly string[]
  /** Column by JSON name. */
  payload: Readonly<Record<string, string>>
  /** What the session's own id is called here. */
  session: 'id' | 'session_id'
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
} as const satisfies Record<string, Table>
export type Kind = keyof typeof tables
