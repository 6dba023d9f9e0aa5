import { createApp } from '../../src/http/app.ts'
import type { AppDeps } from '../../src/http/kit/deps.ts'
import type { Scope } from '../../src/contract/key.ts'

export interface Route {
  method: string
  /** With `:name` for parameters. */
  path: string
  guard:
    | { kind: 'public' }
    | { kind: 'key'; scope: Scope }
    | { kind: 'sandbox' }
    | { kind: 'operator' }
  takesJson: boolean
}

interface Operation {
  security?: Record<string, Scope[]>[]
  requestBody?: { content: Record<string, unknown> }
}

/** Every route of the app, with its guard. Nothing is called: the app is only built. */
export async function loadRoutes(): Promise<Route[]> {
  const app = createApp({
    crypto: { random: (length: number) => '0'.repeat(length) },
    config: { rateLimitPerMinute: 1 },
    tools: [],
  } as unknown as AppDeps)
  const document = (await (await app.request('/openapi.json')).json()) as {
    paths: Record<string, Record<string, Operation>>
  }
  const names = new Set(
    app.routes
      .filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => `${method} ${path}`),
  )
  return [...names].map((name) => {
    const [method = '', path = ''] = name.split(' ')
    const written = path.replaceAll(/:(\w+)(\{[^}]+\})?/g, '{$1}')
    const operation = document.paths[written]?.[method.toLowerCase()]
    return {
      method,
      path,
      guard: guardOf(operation),
      takesJson: operation?.requestBody?.content['application/json'] !== undefined,
    }
  })
}

function guardOf(operation: Operation | undefined): Route['guard'] {
  const [scheme] = operation?.security ?? []
  const scope = scheme?.['apiKey']?.[0]
  if (scope !== undefined) return { kind: 'key', scope }
  if (scheme?.['operatorKey']) return { kind: 'operator' }
  return scheme?.['sandboxToken'] ? { kind: 'sandbox' } : { kind: 'public' }
}
