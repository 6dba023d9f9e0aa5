import type { AppContext } from './context.ts'

/** What every answer has, whatever the route. */
export const headersOf = (c: AppContext): Record<string, string> => ({
  'x-request-id': c.get('requestId'),
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
})

export function setHeaders(c: AppContext): void {
  for (const [name, value] of Object.entries(headersOf(c))) c.header(name, value)
}

/** The hot path makes its answer with all its headers at once: a `Headers` that is put together is dear on Workers. */
export const isCallback = (c: AppContext): boolean => c.req.path.startsWith('/proliferate/')
