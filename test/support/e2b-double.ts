import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type ApiState, createApi, type Listed } from './e2b-double-api.ts'
import { type Box, buildImage } from './e2b-double-box.ts'
import { serveEnvd } from './e2b-double-envd.ts'
import { reply } from './e2b-double-http.ts'

/** What happens to the next requests of a route instead of, before or after their work. */
export interface Fault {
  /** As `POST /v2/sandboxes`, with `:id` for a sandbox's or a template's; `POST *`: any of the API's; `*`: any. */
  route: string
  /** Of these requests of the route the first are let pass. */
  skip?: number
  times?: number
  /** This answer, and nothing is done. */
  status?: number
  retryAfter?: string
  /** It is done, and the connection breaks before the answer. */
  lost?: boolean
  /** It is done, and this is the answer all the same. */
  doneBut?: number
  /** Nothing is done, and the connection breaks. */
  cut?: boolean
  /** Nothing is done, and no answer comes. */
  hangs?: boolean
  delayMs?: number
}

export interface E2bDoubleOptions {
  apiKey?: string
  /** The name of the one template that is there from the start. */
  template?: string
  /** Of this computer, by their place in every sandbox. */
  shares?: Record<string, string>
}

export interface E2bDouble {
  /** For API and daemons alike. */
  url: string
  apiKey: string
  template: string
  /** Ports of this computer's loopback that sandboxes can reach, also as `gantry.test`; those made later take notice. */
  ports: number[]
  /** `METHOD route`, in order. */
  calls: string[]
  /** Calls and fields that the vendor does not have, or that the double does not know: must be empty. */
  refused: string[]
  /** What the vendor can read in its logs. */
  vendorLog: string[]
  fault(fault: Fault): void
  sandboxes(): Listed[]
  /** Names of templates, as the vendor has them. */
  templates(): string[]
  /** Everything that it keeps on this computer. */
  folder: string
  box(id: string): Box
  /** Stands still with all its processes, as after a pause by the vendor. */
  pause(id: string): void
  wake(id: string): void
  /** The vendor no longer knows it, and it goes on all the same. */
  hide(id: string): void
  kill(id: string): Promise<void>
  /** Everything that was made and every fault is gone; the records stay. */
  clear(): Promise<void>
  close(): Promise<void>
}

/** E2B on this machine, as root on Linux: its API and daemons on loopback, sandboxes as namespaces with real processes. */
export async function startE2bDouble(options: E2bDoubleOptions = {}): Promise<E2bDouble> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-e2b-'))
  const apiKey = options.apiKey ?? 'e2b_0123456789abcdef'
  const template = options.template ?? 'gantry'
  const ports: number[] = []
  const calls: string[] = []
  const refused: string[] = []
  const vendorLog: string[] = []
  const faults: Fault[] = []
  const hanging = new Set<ServerResponse>()
  const state: ApiState = {
    folder,
    ports,
    shares: options.shares ?? {},
    boxes: new Map(),
    templates: new Map(),
    hidden: new Map(),
  }
  state.templates.set(template, {
    alias: template,
    source: null,
    builds: new Map([['default', buildImage(join(folder, 'base'))]]),
  })
  const api = createApi(state)

  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      refused.push(`${request.method} ${request.url}: ${(error as Error).message}`)
      if (!response.headersSent) reply(response, 500, { code: 500, message: String(error) })
      else response.destroy()
    })
  })
  // A connection that is closed while its next request comes would be a fault that nobody asked for.
  server.keepAliveTimeout = 600_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    url,
    folder,
    apiKey,
    template,
    ports,
    calls,
    refused,
    vendorLog,
    fault: (fault) => void faults.push({ skip: 0, times: 1, ...fault }),
    sandboxes: api.all,
    templates: () => [...state.templates.keys()],
    box: (id) => api.find(id).box,
    pause: (id) => api.pause(id),
    wake: (id) => api.wake(id),
    hide: (id) => api.hide(id),
    kill: (id) => api.kill(id),
    clear: () => {
      faults.length = 0
      return api.clear()
    },
    close: async () => {
      server.close()
      server.closeAllConnections()
      await api.clear()
      rmSync(folder, { recursive: true, force: true })
    },
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', url)
    const isApi = !/^\/(process\.Process|filesystem\.Filesystem|files|health)(\/|$)/.test(pathname)
    const route = `${request.method} ${isApi ? routeOf(pathname) : pathname}`
    calls.push(route)
    const fault = takeFault(route, isApi)
    if (fault?.delayMs !== undefined)
      await new Promise((resolve) => setTimeout(resolve, fault.delayMs))
    if (fault?.cut) return void response.destroy()
    if (fault?.hangs) return void hanging.add(response)
    if (fault?.status !== undefined) {
      if (fault.retryAfter !== undefined) response.setHeader('retry-after', fault.retryAfter)
      return reply(response, fault.status, { code: fault.status, message: 'injected' })
    }
    if (!isApi) return serveDaemon(request, response)
    if (request.headers['x-api-key'] !== apiKey)
      return reply(response, 401, { code: 401, message: 'Invalid API key' })
    const body = await buffer(request)
    const given = body.length === 0 ? undefined : (JSON.parse(body.toString()) as unknown)
    const answer = await api.serve(request.method ?? '', request.url ?? '', given)
    if (fault?.lost) return void response.destroy()
    if (fault?.doneBut !== undefined)
      return reply(response, fault.doneBut, { code: fault.doneBut, message: 'injected' })
    for (const [name, value] of Object.entries(answer.headers ?? {}))
      response.setHeader(name, value)
    if (answer.status === 204) return void response.writeHead(204).end()
    reply(response, answer.status, answer.body ?? {})
  }

  async function serveDaemon(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = String(request.headers['e2b-sandbox-id'])
    const found = state.boxes.get(id)
    if (found === undefined || found.state !== 'running')
      return reply(response, 502, {
        sandboxId: id,
        message: 'The sandbox was not found',
        code: 502,
      })
    if (request.headers['x-access-token'] !== found.box.accessToken)
      return reply(response, 401, { code: 'unauthenticated', message: 'invalid access token' })
    await serveEnvd(found.box, request, response, {
      log: (line) => void vendorLog.push(line),
      unknown: (call) => {
        throw new Error(`Unknown call ${call}`)
      },
    })
  }

  function takeFault(route: string, isApi: boolean): Fault | undefined {
    for (const fault of faults) {
      const isMeant =
        fault.route === '*' ||
        fault.route === route ||
        (fault.route === 'POST *' && isApi && route.startsWith('POST '))
      if (!isMeant || (fault.times ?? 1) === 0) continue
      if ((fault.skip ?? 0) > 0) {
        fault.skip = (fault.skip ?? 0) - 1
        continue
      }
      fault.times = (fault.times ?? 1) - 1
      return fault
    }
    return undefined
  }
}

const routeOf = (path: string) =>
  path
    .replace(/^(\/v2)?\/sandboxes\/[^/]+/, '$1/sandboxes/:id')
    .replace(/^\/templates\/aliases\/.+$/, '/templates/aliases/:id')
    .replace(/^\/templates\/(?!aliases\/).+$/, '/templates/:id')
