import { z } from 'zod'
import { tellKnownFields } from './unknown-field.ts'

tellKnownFields()

interface ErrorRow {
  status: 400 | 401 | 403 | 404 | 405 | 409 | 413 | 422 | 429 | 500 | 503
  /** Whether the same request may be sent again unchanged. Only the relay and callers' own loops act on it. */
  retryable: boolean
}

/** Every refusal that Gantry can give: one code, one status. */
export const errorTable = {
  invalid_request: { status: 400, retryable: false },
  unauthenticated: { status: 401, retryable: false },
  token_expired: { status: 401, retryable: false },
  forbidden: { status: 403, retryable: false },
  not_sandbox: { status: 403, retryable: false },
  other_session: { status: 403, retryable: false },
  old_generation: { status: 403, retryable: false },
  session_closed: { status: 403, retryable: false },
  /** A model call that the session may not make: another model, no turn, a kill switch. */
  model_refused: { status: 403, retryable: false },
  not_found: { status: 404, retryable: false },
  unknown_tool: { status: 404, retryable: false },
  method_not_allowed: { status: 405, retryable: false },
  call_conflict: { status: 409, retryable: false },
  key_conflict: { status: 409, retryable: false },
  wrong_state: { status: 409, retryable: false },
  /** A gate guards it, and no run or approval lets it through. */
  not_promoted: { status: 409, retryable: false },
  queue_full: { status: 409, retryable: false },
  budget_spent: { status: 409, retryable: false },
  too_large: { status: 413, retryable: false },
  unprocessable: { status: 422, retryable: false },
  rate_limited: { status: 429, retryable: true },
  internal: { status: 500, retryable: false },
  storage_unavailable: { status: 503, retryable: true },
  newer_release: { status: 503, retryable: true },
  sandbox_unavailable: { status: 503, retryable: true },
  /** The deployment lacks variables: whoever runs it must act. */
  not_configured: { status: 503, retryable: true },
  model_unavailable: { status: 503, retryable: true },
  /** A host that a secret of the session is for. */
  upstream_unavailable: { status: 503, retryable: true },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof errorTable

export const ErrorBody = z.object({
  error: z.object({
    code: z.enum(Object.keys(errorTable) as [ErrorCode, ...ErrorCode[]]),
    message: z.string(),
    details: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .describe('One entry per field that is wrong'),
  }),
})
export type ErrorBody = z.infer<typeof ErrorBody>
export type ErrorDetail = NonNullable<ErrorBody['error']['details']>[number]

/**
 * A refusal, thrown wherever a caller must be told no; the HTTP app turns it into the error envelope by the table above.
 * Its code is what crosses an RPC border: match `code`, never `instanceof`.
 */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetail[] | undefined
  constructor(code: ErrorCode, message: string, details?: ErrorDetail[]) {
    super(message)
    this.name = 'AppError'
    this.code = code
    this.details = details
  }
}

export function errorCodeOf(error: unknown): ErrorCode | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && Object.hasOwn(errorTable, code)
    ? (code as ErrorCode)
    : undefined
}
