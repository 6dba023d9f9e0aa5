import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'

export interface FakeSandboxHost {
  /** For the control plane. */
  env: Record<string, string>
  /** Every order in its order, such as `PUT ses_….1`. */
  orders: string[]
  specs: SandboxSpec[]
  /** What it says it runs. Tests may change it. */
  running: Map<string, SandboxInfo>
  close(): void
}

/** Keeps books like the local sandbox host, but starts nothing: tests play the agent themselves. */
export async function startFakeSandboxHost(): Promise<FakeSandboxHost> {
  const orders: string[] = []
  const specs: SandboxSpec[] = []
  const running = new Map<string, SandboxInfo>()
  const server = createServer((request, response) => {
    const [, folder, sessionId = '', generation = ''] = request.url?.split('/') ?? []
    if (folder !== 'sandboxes' || request.headers.authorization !== 'Bearer test-secret') {
      throw new Error(`Unexpected request: ${request.method} ${request.url}`)
    }
    const name = `${sessionId}.${generation}`
    orders.push(`${request.method} ${name}`)
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      if (request.method === 'PUT') {
        specs.push(JSON.parse(body) as SandboxSpec)
        const known = running.get(name)
        running.set(
          name,
          known ?? { sessionId, generation: Number(generation), state: 'running', reason: null },
        )
      }
      if (request.method === 'DELETE') {
        running.delete(name)
        response.writeHead(204).end()
        return
      }
      const info = running.get(name)
      response.writeHead(info ? 200 : 404, { 'content-type': 'application/json' })
      response.end(JSON.stringify(info ?? {}))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    env: {
      SANDBOX_HOST_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      SANDBOX_HOST_SECRET: 'test-secret',
      SANDBOX_ROOT: '/nowhere',
    },
    orders,
    specs,
    running,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
