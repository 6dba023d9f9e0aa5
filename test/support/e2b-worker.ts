import { createE2bSandboxes, type E2bOptions } from '../../src/adapters/sandboxes/e2b.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import type { SandboxProvider } from '../../src/core/ports.ts'

// The adapter alone, in a Durable Object or under Deno: each request is one call of it.

interface Call {
  options: E2bOptions
  method: keyof SandboxProvider
  args: unknown[]
}

async function serve(request: Request): Promise<Response> {
  if (request.method === 'GET') return new Response('up')
  const { options, method, args } = (await request.json()) as Call
  const provider = createE2bSandboxes(options) as unknown as Record<
    string,
    (...args: unknown[]) => Promise<unknown>
  >
  try {
    return Response.json({ value: (await provider[method]?.(...args)) ?? null })
  } catch (error) {
    return Response.json({ code: errorCodeOf(error), message: (error as Error).message })
  }
}

export class ProviderObject {
  fetch(request: Request): Promise<Response> {
    return serve(request)
  }
}

interface Env {
  PROVIDER: {
    idFromName(name: string): object
    get(id: object): { fetch(request: Request): Promise<Response> }
  }
}
export default {
  fetch: (request: Request, { PROVIDER }: Env) =>
    PROVIDER.get(PROVIDER.idFromName('one')).fetch(request),
}

interface DenoHost {
  serve(options: { port: number; hostname: string }, handle: typeof serve): void
  env: { get(name: string): string }
}
const { Deno } = globalThis as unknown as { Deno?: DenoHost }
Deno?.serve({ port: Number(Deno.env.get('PORT')), hostname: '127.0.0.1' }, serve)
