import type { AppContext } from './context.ts'

/** What every answer has, whatever the route; beside the request's id. */
const common = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' }
const requestId = 'x-request-id'

export function setHeaders(c: AppContext): void {
  c.header(requestId, c.get('requestId'))
  for (const [name, value] of Object.entries(common)) c.header(name, value)
}

/**
 * Answers that all have these headers. On Workers it is much cheaper to copy a `Headers` than to hand over each name and
 * value, so what does not change is put together once.
 */
export function answerWithHeaders(
  given: Record<string, string>,
): (c: AppContext, body: string) => Response {
  const headers = new Headers({ ...common, ...given })
  return (c, body) => {
    const answer = new Response(body, { headers })
    answer.headers.set(requestId, c.get('requestId'))
    return answer
  }
}

/** The hot path makes its answer with all its headers at once. */
export const isCallback = (c: AppContext): boolean => c.req.path.startsWith('/proliferate/')
