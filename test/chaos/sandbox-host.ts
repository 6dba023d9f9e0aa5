import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'
import type { ChaosAgent } from './agent.ts'
import { closeServer } from './crash-server.ts'

export interface ChaosHost {
  url: string
  /** Every sandbox that ever was, by session and generation. */
  agents: Map<string, ChaosAgent>
  stopped: Set<string>
  close: () => Promise<void>
}

/** Speaks the local sandbox host's protocol; its sandboxes are agents inside this process. */
export async function startChaosHost(
  startAgent: (spec: SandboxSpec) => ChaosAgent,
): Promise<ChaosHost> {
  const agents = new Map<string, ChaosAgent>()
  const stopped = new Set<string>()
  const specs: SandboxSpec[] = []
  const infoOf = (sessionId: string, generation: number): SandboxInfo => ({
    sessionId,
    generation,
    state: stopped.has(`${sessionId}.${generation}`) ? 'exited' : 'running',
    reason: null,
    startedAt: 0,
  })

  const server = createServer((request, response) => {
    response.on('error', () => undefined)
    void serve(request, response)
  })
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://host')
    const [, , sessionId = '', generation = '', lifetime] = pathname.split('/')
    const key = `${sessionId}.${generation}`
    const body = await readAll(request)
    if (body === null) return
    const answer = (status: number, content?: object) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(content && JSON.stringify(content))
    if (sessionId === '') {
      const theirs = specs.filter(
        (spec) => spec.organisationId === searchParams.get('organisation'),
      )
      answer(200, { items: theirs.map((spec) => infoOf(spec.sessionId, spec.generation)) })
      return
    }
    if (lifetime !== undefined) {
      const isAlive = agents.has(key) && !stopped.has(key)
      answer(isAlive ? 204 : 404, isAlive ? undefined : { message: 'It does not run' })
      return
    }
    if (request.method === 'PUT') {
      if (!agents.has(key) && !stopped.has(key)) {
        const spec = JSON.parse(body) as SandboxSpec
        specs.push(spec)
        agents.set(key, startAgent(spec))
      }
    } else if (request.method === 'DELETE') {
      stopped.add(key)
      agents.get(key)?.stop()
      answer(204)
      return
    }
    if (!agents.has(key) && !stopped.has(key)) {
      answer(404)
      return
    }
    answer(200, infoOf(sessionId, Number(generation)))
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    agents,
    stopped,
    close: async () => {
      for (const agent of agents.values()) agent.stop()
      await closeServer(server)
    },
  }
}

/** null: the caller was killed in the middle. */
async function readAll(request: IncomingMessage): Promise<string | null> {
  let text = ''
  request.setEncoding('utf8')
  try {
    for await (const chunk of request) text += chunk as string
  } catch {
    return null
  }
  return text
}
