// The calls of E2B's REST API that Gantry uses. Something that does not exist is null or false; every other failure
// throws, and `E2bFailure` keeps the vendor's status and words. e2b.ts and the files beside it call it.

import { z } from 'zod'
import { AppError } from '../../contract/error.ts'

interface E2bApiOptions {
  apiKey: string
  /** Without a slash at its end. */
  apiUrl: string
  timeouts?: E2bTimeouts | undefined
}
export interface E2bTimeouts {
  quickMs: number
  slowMs: number
}

const Access = z.object({
  sandboxID: z.string(),
  domain: z.string().nullish(),
  envdAccessToken: z.string().nullish(),
})
export type E2bAccess = z.infer<typeof Access>

const Listed = z.object({
  sandboxID: z.string(),
  startedAt: z.string(),
  state: z.enum(['running', 'paused']),
  metadata: z.record(z.string(), z.string()).nullish(),
})
export type E2bListed = z.infer<typeof Listed>

const Snapshot = z.object({ snapshotID: z.string() })
const Alias = z.object({ templateID: z.string() })
const Template = z.object({ builds: z.array(z.object({ status: z.string() })) })

interface NewE2bSandbox {
  templateID: string
  /** Seconds. */
  timeout: number
  metadata: Record<string, string>
  allow_internet_access: boolean
}

// The vendor starts machines and writes whole disks within the slow ones.
const usual: E2bTimeouts = { quickMs: 15_000, slowMs: 60_000 }
const pageSize = 100
const maxPages = 100
const maxWaitMs = 3000
const maxWaits = 2

interface Request {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  body?: object
  timeoutMs?: number
}

export type E2bApi = ReturnType<typeof createE2bApi>

export function createE2bApi({ apiKey, apiUrl, timeouts = usual }: E2bApiOptions) {
  const { quickMs, slowMs } = timeouts
  return {
    create: async (sandbox: NewE2bSandbox): Promise<E2bAccess> => {
      const body = { ...sandbox, autoPause: false, network: { allowPublicTraffic: false } }
      const request: Request = { method: 'POST', path: '/v2/sandboxes', body, timeoutMs: slowMs }
      return read(Access, await mustSucceed(request))
    },
    access: async (id: string): Promise<E2bAccess | null> => {
      const response = await unlessMissing({ method: 'GET', path: `/sandboxes/${id}` })
      return response && read(Access, response)
    },
    /** Running and paused, the oldest first. */
    list: async (metadata: Record<string, string>): Promise<E2bListed[]> => {
      const filter = new URLSearchParams(metadata).toString()
      const found = await pages(`/v2/sandboxes?${query({ metadata: filter, order: 'asc' })}`)
      return found.toSorted(byAge)
    },
    extend: (id: string, timeout: number): Promise<boolean> =>
      isThere({ method: 'POST', path: `/sandboxes/${id}/timeout`, body: { timeout } }),
    kill: (id: string): Promise<boolean> =>
      isThere({ method: 'DELETE', path: `/sandboxes/${id}`, timeoutMs: slowMs }),
    /** What comes back after `connect` is a machine newly started on the same disk. */
    pauseWithoutMemory: (id: string): Promise<boolean> =>
      isThere({
        method: 'POST',
        path: `/sandboxes/${id}/pause`,
        body: { memory: false },
        timeoutMs: slowMs,
      }),
    connect: async (id: string, timeout: number): Promise<E2bAccess | null> => {
      const path = `/v2/sandboxes/${id}/connect`
      const request: Request = { method: 'POST', path, body: { timeout }, timeoutMs: slowMs }
      const response = await unlessMissing(request)
      return response && read(Access, response)
    },
    /** With its memory: the vendor has no other kind. */
    takeSnapshot: async (id: string, name: string): Promise<string | null> => {
      const path = `/sandboxes/${id}/snapshots`
      const response = await unlessMissing({
        method: 'POST',
        path,
        body: { name },
        timeoutMs: slowMs,
      })
      return response && (await read(Snapshot, response)).snapshotID
    },
    /** Its full name, with the tag that it was taken under. */
    findSnapshot: async (alias: string): Promise<string | null> => {
      const path = `/snapshots?${query({ name: alias })}`
      const response = await mustSucceed({ method: 'GET', path })
      return (await read(z.array(Snapshot), response))[0]?.snapshotID ?? null
    },
    /** Snapshots are templates, too. */
    deleteTemplate: (alias: string): Promise<boolean> =>
      isThere({ method: 'DELETE', path: `/templates/${encodeURIComponent(alias)}` }),
    /** States of a template's builds; 'hidden': it is there, but another team's; null: there is none. */
    template: async (name: string): Promise<string[] | 'hidden' | null> => {
      const path = encodeURIComponent(name)
      const alias = await ask({ method: 'GET', path: `/templates/aliases/${path}` })
      if (alias.status === 403) return 'hidden'
      const known = alias.status === 404 ? null : await read(Alias, await checked(alias))
      const id = known?.templateID ?? name
      const builds = await ask({ method: 'GET', path: `/templates/${encodeURIComponent(id)}` })
      if (builds.status === 404 || builds.status === 403) return known === null ? null : 'hidden'
      const { builds: all } = await read(Template, await checked(builds))
      return all.map(({ status }) => status)
    },
    /** Throws if the key is refused or nobody answers. */
    ping: async (): Promise<void> => {
      const response = await mustSucceed({ method: 'GET', path: '/v2/sandboxes?limit=1' })
      await read(z.array(Listed), response)
    },
  }

  async function pages(path: string): Promise<E2bListed[]> {
    const found: E2bListed[] = []
    let next: string | null = ''
    for (let page = 0; next !== null && page < maxPages; page += 1) {
      const rest = query({ limit: String(pageSize), ...(next !== '' && { nextToken: next }) })
      const response = await mustSucceed({ method: 'GET', path: `${path}&${rest}` })
      found.push(...(await read(z.array(Listed), response)))
      next = response.headers.get('x-next-token') || null
    }
    return found
  }

  async function isThere(request: Request): Promise<boolean> {
    const response = await unlessMissing(request)
    await response?.body?.cancel()
    return response !== null
  }

  async function unlessMissing(request: Request): Promise<Response | null> {
    const response = await ask(request)
    if (response.status !== 404) return checked(response)
    await response.body?.cancel()
    return null
  }

  async function mustSucceed(request: Request): Promise<Response> {
    return checked(await ask(request))
  }

  /** What was refused for its rate was not carried out, so it may be asked once more. */
  async function ask(request: Request): Promise<Response> {
    for (let waits = 0; ; waits += 1) {
      const response = await send(request)
      const waitMs = Number(response.headers.get('retry-after') ?? 1) * 1000
      if (response.status !== 429 || waits === maxWaits || !(waitMs <= maxWaitMs)) return response
      await response.body?.cancel()
      await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }

  async function send({ method, path, body, timeoutMs = quickMs }: Request): Promise<Response> {
    try {
      return await fetch(`${apiUrl}${path}`, {
        method,
        headers: { 'x-api-key': apiKey, 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
        // An organisation may name the address: its server must not send the key on, nor us to one of ours.
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      })
    } catch (error) {
      throw unavailable(`Cannot reach E2B: ${(error as Error).message}`)
    }
  }

  async function checked(response: Response): Promise<Response> {
    const { status } = response
    if (response.ok) return response
    const text = (await response.text().catch(() => '')).slice(0, 300)
    if (status === 401 || status === 403) throw unavailable('E2B refuses the API key')
    if (status === 429) throw unavailable('E2B limits our requests: try again later')
    throw new E2bFailure(status, text.replaceAll(apiKey, '[hidden]'))
  }
}

/** An answer that nobody has planned for. */
export class E2bFailure extends AppError {
  readonly status: number
  readonly words: string
  constructor(status: number, words: string) {
    super('sandbox_unavailable', `E2B answered ${status}: ${words}`)
    this.status = status
    this.words = words
  }
}

export const unavailable = (message: string): AppError =>
  new AppError('sandbox_unavailable', message)

async function read<T>(schema: z.ZodType<T>, response: Response): Promise<T> {
  try {
    return schema.parse(await response.json())
  } catch (error) {
    throw unavailable(`Cannot read E2B's answer: ${(error as Error).message}`)
  }
}

const query = (values: Record<string, string>) => new URLSearchParams(values).toString()

const byAge = (a: E2bListed, b: E2bListed) =>
  Date.parse(a.startedAt) - Date.parse(b.startedAt) || (a.sandboxID < b.sandboxID ? -1 : 1)
