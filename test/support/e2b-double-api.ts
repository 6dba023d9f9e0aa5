import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { Box, type Image } from './e2b-double-box.ts'

// The vendor's REST API, as far as Gantry and the vendor's SDK use it. Unknown routes and fields throw.

const NewSandbox = z.strictObject({
  templateID: z.string(),
  timeout: z
    .number()
    .int()
    .min(1)
    .max(24 * 3600)
    .default(300),
  metadata: z.record(z.string(), z.string()).default({}),
  envVars: z.record(z.string(), z.string()).optional(),
  autoPause: z.boolean().default(false),
  allow_internet_access: z.boolean().default(true),
  network: z.strictObject({ allowPublicTraffic: z.boolean().optional() }).optional(),
})
const Timeout = z.strictObject({ timeout: z.number().int().min(0) })
const Connect = z.strictObject({
  timeout: z.number().int().optional(),
  memory: z.boolean().optional(),
})
const Pause = z.strictObject({ memory: z.boolean().default(true) })
const NewSnapshot = z.strictObject({ name: z.string().optional() })
/** As the vendor checks names. */
const Name = /^([a-z0-9-_]+\/)?([a-z0-9-_]+)(?::([a-z0-9-_.]+))?$/

const team = 'team'
const envdVersion = '0.6.0'
const pageSize = 100

export interface Template {
  alias: string
  /** The sandbox of which it is a snapshot; null: built. */
  source: string | null
  builds: Map<string, Image>
}
export interface Running {
  box: Box
  template: string
  metadata: Record<string, string>
  state: 'running' | 'paused'
  autoPause: boolean
  startedAt: number
  endAt: number
  timer: NodeJS.Timeout | undefined
}
export interface ApiState {
  folder: string
  ports: number[]
  shares: Record<string, string>
  boxes: Map<string, Running>
  hidden: Map<string, Running>
  templates: Map<string, Template>
}
export interface Listed {
  sandboxID: string
  state: 'running' | 'paused'
  metadata: Record<string, string>
}
interface Answer {
  status: number
  body?: object
  headers?: Record<string, string>
}
type Serve = (id: string, body: unknown, query: URLSearchParams) => Answer | Promise<Answer>

export function createApi(state: ApiState) {
  const routes: [string, RegExp, Serve][] = [
    ['POST', /^\/v2\/sandboxes()$/, (_, body) => create(NewSandbox.parse(body))],
    ['GET', /^\/v2\/sandboxes()$/, (_, __, query) => list(query)],
    ['GET', /^\/sandboxes\/([^/]+)$/, (id) => withBox(id, (found) => ok(detail(id, found)))],
    [
      'DELETE',
      /^\/sandboxes\/([^/]+)$/,
      async (id) => ((await remove(id)) ? { status: 204 } : missing),
    ],
    [
      'POST',
      /^\/sandboxes\/([^/]+)\/timeout$/,
      (id, body) => withBox(id, (found) => setTimeoutOf(id, found, Timeout.parse(body).timeout)),
    ],
    [
      'POST',
      /^\/sandboxes\/([^/]+)\/pause$/,
      (id, body) => withBox(id, (found) => pauseOne(found, Pause.parse(body ?? {}).memory)),
    ],
    [
      'POST',
      /^\/v2\/sandboxes\/([^/]+)\/connect$/,
      (id, body) => withBox(id, (found) => connect(id, found, Connect.parse(body ?? {}))),
    ],
    [
      'POST',
      /^\/sandboxes\/([^/]+)\/snapshots$/,
      (id, body) => withBox(id, (found) => snapshot(id, found, NewSnapshot.parse(body).name)),
    ],
    ['GET', /^\/snapshots()$/, (_, __, query) => listSnapshots(query)],
    [
      'GET',
      /^\/templates\/aliases\/(.+)$/,
      (alias) => (state.templates.has(alias) ? ok({ templateID: alias, public: false }) : missing),
    ],
    [
      'GET',
      /^\/templates\/([^/]+)$/,
      (id) =>
        state.templates.has(id) ? ok({ templateID: id, builds: [{ status: 'ready' }] }) : missing,
    ],
    ['DELETE', /^\/templates\/(.+)$/, (name) => deleteTemplate(name)],
  ]
  let copies = 0

  return {
    serve: async (method: string, url: string, body: unknown): Promise<Answer> => {
      const { pathname, searchParams } = new URL(url, 'http://api')
      for (const [verb, pattern, serve] of routes) {
        const match = pattern.exec(pathname)
        if (verb === method && match !== null)
          return serve(decodeURIComponent(match[1] ?? ''), body, searchParams)
      }
      throw new Error(`Unknown call ${method} ${pathname}`)
    },
    all: (): Listed[] =>
      [...state.boxes].map(([sandboxID, { state: now, metadata }]) => ({
        sandboxID,
        state: now,
        metadata,
      })),
    find,
    pause: (id: string) => {
      find(id).state = 'paused'
      find(id).box.freeze()
    },
    wake: (id: string) => {
      find(id).state = 'running'
      find(id).box.thaw()
    },
    hide: (id: string) => {
      state.hidden.set(id, find(id))
      state.boxes.delete(id)
    },
    kill: async (id: string) => void (await remove(id)),
    clear: async () => {
      const all = [...state.boxes.values(), ...state.hidden.values()]
      state.boxes.clear()
      state.hidden.clear()
      for (const { timer } of all) clearTimeout(timer)
      await Promise.all(all.map(({ box }) => box.destroy()))
      const snapshots = [...state.templates.values()].filter(({ source }) => source !== null)
      for (const { alias } of snapshots) deleteTemplate(alias)
    },
  }

  function find(id: string): Running {
    const found = state.boxes.get(id) ?? state.hidden.get(id)
    if (found === undefined) throw new Error(`There is no sandbox ${id}`)
    return found
  }

  function withBox(id: string, serve: (found: Running) => Answer | Promise<Answer>) {
    const found = state.boxes.get(id)
    return found === undefined ? missing : serve(found)
  }

  async function create(order: z.infer<typeof NewSandbox>): Promise<Answer> {
    const [alias, tag] = parseName(order.templateID)
    const image = state.templates.get(alias)?.builds.get(tag)
    if (image === undefined)
      return { status: 404, body: { code: 404, message: `template '${alias}' not found` } }
    const box = await Box.start({
      folder: join(state.folder, `box-${(copies += 1)}`),
      image,
      shares: state.shares,
      ports: order.allow_internet_access ? [...state.ports] : [],
    })
    const now = Date.now()
    const running: Running = {
      box,
      template: alias,
      metadata: order.metadata,
      state: 'running',
      autoPause: order.autoPause,
      startedAt: now,
      endAt: now,
      timer: undefined,
    }
    state.boxes.set(box.id, running)
    setTimeoutOf(box.id, running, order.timeout)
    return { status: 201, body: access(box.id, running) }
  }

  function setTimeoutOf(id: string, running: Running, seconds: number): Answer {
    clearTimeout(running.timer)
    running.endAt = Date.now() + seconds * 1000
    const end = () => void (running.autoPause ? pauseOne(running, true) : remove(id))
    running.timer = setTimeout(end, seconds * 1000).unref()
    return { status: 204 }
  }

  function list(query: URLSearchParams): Answer {
    const unknown = [...query.keys()].filter(
      (key) => !['metadata', 'limit', 'nextToken', 'order', 'state'].includes(key),
    )
    if (unknown.length > 0) throw new Error(`Unknown filters ${unknown.join(', ')}`)
    // The vendor decodes the whole, then each part.
    const filter = decodeURIComponent((query.get('metadata') ?? '').replaceAll('+', ' '))
    const wanted = [...new URLSearchParams(filter)]
    const states = query.get('state')?.split(',')
    const sign = query.get('order') === 'asc' ? 1 : -1
    const found = [...state.boxes]
      .filter(([, { metadata }]) => wanted.every(([key, value]) => metadata[key] === value))
      .filter(([, running]) => states === undefined || states.includes(running.state))
      .map(([id, running]) => listed(id, running))
      .toSorted((a, b) => sign * (Date.parse(a.startedAt) - Date.parse(b.startedAt)))
    const limit = Math.min(pageSize, Number(query.get('limit') ?? pageSize))
    const from = Number(query.get('nextToken') ?? 0)
    const rest = from + limit < found.length ? { 'x-next-token': String(from + limit) } : undefined
    return { status: 200, body: found.slice(from, from + limit), ...(rest && { headers: rest }) }
  }

  async function remove(id: string): Promise<boolean> {
    const found = state.boxes.get(id)
    if (found === undefined) return false
    clearTimeout(found.timer)
    state.boxes.delete(id)
    await found.box.destroy()
    return true
  }

  async function pauseOne(found: Running, memory: boolean): Promise<Answer> {
    if (found.state === 'paused')
      return { status: 409, body: { code: 409, message: 'already paused' } }
    clearTimeout(found.timer)
    found.state = 'paused'
    if (memory) found.box.freeze()
    else await found.box.powerOff()
    return { status: 204 }
  }

  async function connect(
    id: string,
    found: Running,
    { timeout = 300 }: z.infer<typeof Connect>,
  ): Promise<Answer> {
    const wasRunning = found.state === 'running'
    if (!wasRunning) {
      if (found.box.isUp) found.box.thaw()
      else await found.box.powerOn()
      found.state = 'running'
    }
    setTimeoutOf(id, found, timeout)
    return { status: wasRunning ? 200 : 201, body: access(id, found) }
  }

  function snapshot(id: string, found: Running, name: string | undefined): Answer {
    if (found.state === 'paused') return missing
    const [alias, tag] = name === undefined ? [`snap${(copies += 1)}`, 'default'] : parseName(name)
    const image = found.box.copyTo(join(state.folder, `image-${(copies += 1)}`))
    const template = state.templates.get(alias) ?? {
      alias,
      source: id,
      builds: new Map<string, Image>(),
    }
    // The newest build of a name comes first.
    template.builds = new Map([[tag, image], ...template.builds])
    state.templates.set(alias, template)
    return { status: 201, body: snapshotInfo(template, tag) }
  }

  function listSnapshots(query: URLSearchParams): Answer {
    const name = query.get('name')
    const source = query.get('sandboxID')
    const found = [...state.templates.values()]
      .filter((each) => each.source !== null && (source === null || each.source === source))
      .filter(({ alias }) => name === null || parseName(name)[0] === alias)
    return {
      status: 200,
      body: found.map((each) => snapshotInfo(each, [...each.builds.keys()][0] ?? '')),
    }
  }

  function deleteTemplate(name: string): Answer {
    const [alias] = parseName(name)
    const found = state.templates.get(alias)
    if (found === undefined) return missing
    if ([...state.boxes.values()].some(({ template }) => template === alias))
      return {
        status: 400,
        body: {
          code: 400,
          message: `cannot delete template '${alias}' because there are running sandboxes using it`,
        },
      }
    for (const { folder } of found.builds.values()) rmSync(folder, { recursive: true, force: true })
    state.templates.delete(alias)
    return { status: 204 }
  }
}

const missing: Answer = { status: 404, body: { code: 404, message: 'not found' } }
const ok = (body: object): Answer => ({ status: 200, body })

function parseName(name: string): [alias: string, tag: string] {
  const match = Name.exec(name)
  if (match === null) throw new Error(`Not a name: ${name}`)
  return [match[2] ?? '', match[3] ?? 'default']
}

const snapshotInfo = ({ alias }: Template, tag: string) => ({
  snapshotID: `${team}/${alias}:${tag}`,
  names: [`${team}/${alias}`],
})

const access = (id: string, { box, template }: Running) => ({
  sandboxID: id,
  templateID: template,
  clientID: 'client',
  envdVersion,
  envdAccessToken: box.accessToken,
  domain: null,
})

const detail = (id: string, running: Running) => ({
  ...access(id, running),
  ...listed(id, running),
})

const listed = (id: string, running: Running) => ({
  sandboxID: id,
  templateID: running.template,
  clientID: 'client',
  envdVersion,
  metadata: running.metadata,
  state: running.state,
  startedAt: new Date(running.startedAt).toISOString(),
  endAt: new Date(running.endAt).toISOString(),
  cpuCount: 2,
  memoryMB: 512,
  diskSizeMB: 1024,
})
