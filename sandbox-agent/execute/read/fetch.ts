import type { IsolationPlan } from '../../../src/contract/operation.ts'
import { messageOf } from '../../log.ts'
import type { Outcome } from '../run/outcome.ts'
import { describeBinary, maxFileBytes, type Upload } from './read.ts'
import { isTextToShow, showBytes } from '../run/show.ts'

/**
 * One GET by the agent itself, without credentials. A redirect is told and not followed: somebody decided about this
 * address and no other.
 */
export async function fetchUrl(
  url: string,
  plan: IsolationPlan,
  upload: Upload,
  stop: AbortSignal,
): Promise<Outcome> {
  if (!plan.network) throw new Error('Cannot fetch: the plan allows no network')
  const { timeoutMs, outputBytes } = plan.limits
  const enforced: Outcome['enforced'] = ['time', 'output']
  try {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { accept: '*/*', 'user-agent': 'gantry' },
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), stop]),
    })
    const { content, whole } = await readBody(response)
    const error = describeStatus(response)
    if (isTextToShow(content)) {
      const { text, cut } = showBytes(content, outputBytes)
      return { output: text, truncated: cut || !whole, error, enforced }
    }
    if (!whole) throw new Error(`it is binary and larger than ${maxFileBytes} bytes`)
    const file = await upload(
      nameOf(url),
      content,
      response.headers.get('content-type') ?? undefined,
    )
    return { output: describeBinary(content), files: [file], error, enforced }
  } catch (error) {
    throw new Error(`Cannot fetch "${url}": ${whyNot(error, timeoutMs)}`, { cause: error })
  }
}

function whyNot(error: unknown, timeoutMs: number): string {
  const { name } = error as Error
  if (name === 'TimeoutError') return `no end after ${timeoutMs} ms`
  return name === 'AbortError' ? 'it was cancelled' : messageOf(error)
}

/** Counted after decompression, so that a small answer cannot become a large one. */
async function readBody(response: Response): Promise<{ content: Buffer; whole: boolean }> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  const reader = response.body?.getReader()
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done || value === undefined) return { content: Buffer.concat(chunks), whole: true }
    chunks.push(value)
    bytes += value.length
    if (bytes <= maxFileBytes) continue
    await reader?.cancel()
    return { content: Buffer.concat(chunks).subarray(0, maxFileBytes), whole: false }
  }
}

function describeStatus({ status, headers }: Response): string | null {
  if (status >= 200 && status < 300) return null
  const location = headers.get('location')
  return location === null ? `HTTP ${status}` : `HTTP ${status}: not followed to "${location}"`
}

const nameOf = (url: string) =>
  new URL(url).pathname.split('/').findLast((name) => name !== '') ?? 'body'
