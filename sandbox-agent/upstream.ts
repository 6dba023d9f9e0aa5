import { ErrorBody, errorTable } from '../src/contract/error.ts'
import { ToolResult } from '../src/contract/tool.ts'
import { crashPoint } from './crash-points.ts'
import { messageOf, sleep } from './log.ts'

export interface UpstreamOptions {
  url: string
  token: () => string
  body: string
  maxTries?: number
  tryTimeoutMs?: number
  firstBackoffMs?: number
  /** A vendor that asks for more patience than this is not waited for. */
  maxRetryAfterMs?: number
}

export interface Outcome {
  result: ToolResult
  /** False: the result only says why there is no answer. */
  answered: boolean
}
type Attempt = Outcome | { retry: string; afterMs?: number }

const retriedStatuses = new Set([429, 502, 503, 504])

/** One logical request to the control plane, under one tool_call_id. Whatever happens, the answer is a result. */
export async function callUpstream(options: UpstreamOptions): Promise<Outcome> {
  const { maxTries = 6, firstBackoffMs = 500 } = options
  let reason = 'no answer'
  for (let tries = 0; tries < maxTries; tries += 1) {
    const attempt = await attemptOnce(options)
    if ('result' in attempt) return attempt
    reason = attempt.retry
    if (tries < maxTries - 1) await sleep(attempt.afterMs ?? firstBackoffMs * 2 ** tries)
  }
  return failure(`${reason} (gave up after ${maxTries} tries)`)
}

const failure = (reason: string): Outcome => ({
  result: { success: false, result: `Gateway error: ${reason}` },
  answered: false,
})

async function attemptOnce(options: UpstreamOptions): Promise<Attempt> {
  try {
    await crashPoint('upstream.before-try')
    const response = await fetch(options.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${options.token()}` },
      body: options.body,
      redirect: 'error',
      signal: AbortSignal.timeout(options.tryTimeoutMs ?? 120_000),
    })
    const text = await response.text()
    await crashPoint('upstream.answered')
    return readAnswer(response, text, options.maxRetryAfterMs ?? 60_000)
  } catch (error) {
    return { retry: messageOf(error) }
  }
}

function readAnswer(response: Response, text: string, maxRetryAfterMs: number): Attempt {
  const body = parseJson(text)
  if (response.ok) {
    const result = ToolResult.safeParse(body)
    if (!result.success) return failure('the answer is not a tool result')
    return { result: result.data, answered: true }
  }
  const error = ErrorBody.safeParse(body)
  const reason =
    `${response.status} ${error.success ? error.data.error.message : response.statusText}`.trim()
  const retryable = error.success && errorTable[error.data.error.code].retryable
  if (!retryable && !retriedStatuses.has(response.status)) return failure(reason)
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  if (!Number.isFinite(seconds)) return { retry: reason }
  return { retry: reason, afterMs: Math.min(seconds * 1000, maxRetryAfterMs) }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
