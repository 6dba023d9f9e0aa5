// One request of a gateway tool to the control plane, tried again under the same tool_call_id until it is answered,
// refused or given up. It never throws: a failure becomes a tool result that says why. The relay calls it.

import { ErrorBody, errorTable } from '../../src/contract/error.ts'
import { ToolResult } from '../../src/contract/tool.ts'
import { crashPoint } from '../crash-points.ts'
import { messageOf, sleep } from '../log.ts'

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

const shownLength = 200
const retriedStatuses = new Set([429, 502, 503, 504])

export async function callUpstream(options: UpstreamOptions): Promise<Outcome> {
  const { maxTries = 6, firstBackoffMs = 500 } = options
  let error = 'Gateway error: no answer'
  for (let tries = 0; tries < maxTries; tries += 1) {
    const attempt = await attemptOnce(options)
    if ('result' in attempt) return attempt
    error = attempt.retry
    if (tries < maxTries - 1) await sleep(attempt.afterMs ?? firstBackoffMs * 2 ** tries)
  }
  return failure(`${error} (gave up after ${maxTries} tries)`)
}

const failure = (text: string): Outcome => ({
  result: { success: false, result: text },
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
    return { retry: `Gateway error: ${messageOf(error)}` }
  }
}

function readAnswer(response: Response, text: string, maxRetryAfterMs: number): Attempt {
  const body = parseJson(text)
  if (response.ok) {
    const result = ToolResult.safeParse(body)
    if (!result.success) return failure('Gateway error: the answer is not a tool result')
    return { result: result.data, answered: true }
  }
  const error = ErrorBody.safeParse(body)
  const said = error.success ? error.data.error.message : text
  const told = `Gateway error ${response.status}: ${firstOf(said) || response.statusText}`
  const retryable = error.success && errorTable[error.data.error.code].retryable
  if (!retryable && !retriedStatuses.has(response.status)) return failure(told)
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  if (!Number.isFinite(seconds)) return { retry: told }
  return { retry: told, afterMs: Math.min(seconds * 1000, maxRetryAfterMs) }
}

/** As much of an error as the contract shows to the model; never half a character. */
const firstOf = (text: string) => text.slice(0, shownLength).replace(/[\ud800-\udbff]$/, '')

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
