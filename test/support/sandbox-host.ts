import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'

export interface FakeSandboxHost {
  /** For the control plane. */
  env: Record<string, string>
  /** Every order about one sandbox in its order, such as `PUT ses_….1`. */
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
  const organisations = new Map<string, string>()
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://host')
    const [, folder, sessionId = '', generation = '', lifetime] = pathname.split('/')
    if (pathname === '/check') {
      response.writeHead(200).end('{"items":[]}')
      return
    }
    if (folder !== 'sandboxes' || request.headers.authorization !== 'Bearer test-secret') {
      throw new Error(`Unexpected request: ${request.method} ${request.url}`)
    }
    const name = `${sessionId}.${generation}`
    const answer = (status: number, body: object = {}) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(status === 204 ? undefined : JSON.stringify(body))
    if (sessionId === '') {
      const isTheirs = ([each]: [string, SandboxInfo]) =>
        organisations.get(each) === searchParams.get('organisation')
      answer(200, { items: [...running].filter(isTheirs).map(([, info]) => info) })
      return
    }
    orders.push(`${request.method} ${name}${lifetime === undefined ? '' : '/lifetime'}`)
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      if (lifetime !== undefined) return answer(running.has(name) ? 204 : 404, { message: 'gone' })
      if (request.method === 'PUT') {
        const spec = JSON.parse(body) as SandboxSpec
        specs.push(spec)
        organisations.set(name, spec.organisationId)
        const info = { sessionId, generation: Number(generation), reason: null, startedAt: 0 }
        if (!running.has(name)) running.set(name, { ...info, state: 'running' })
      }
      if (request.method === 'DELETE') {
        running.delete(name)
        return answer(204)
      }
      const info = running.get(name)
      return answer(info ? 200 : 404, info)
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
