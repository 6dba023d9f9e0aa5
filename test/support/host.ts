import { afterAll, beforeAll, expect } from 'vitest'
import type { Manifest } from '../../src/contract/manifest.ts'
import type { Scope } from '../../src/contract/key.ts'
import type { SandboxSpec } from '../../src/core/ports.ts'
import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { approvalOf } from './agent.ts'
import { createTestApp, type TestApp, type TestAppOptions } from './app.ts'
import { useLibsql } from './libsql.ts'
import { LinkedAgent } from './linked-agent.ts'
import { MemorySandboxes, nameOf } from './memory-sandboxes.ts'
import { Vendor } from './vendor.ts'

/**
 * The whole product in this process: HTTP in; what the sandbox, its agent, the model's vendor and libSQL receive out. One
 * for a test file, which starts in a moment; each test has sessions of its own.
 */
export function useHost(options: Partial<TestAppOptions> = {}): () => Host {
  const libsql = useLibsql()
  const vendor = new Vendor()
  let host: Host
  beforeAll(async () => {
    host = new Host(libsql.db, vendor, { models: await vendor.start(), ...options })
    host.key = await host.newKey('admin')
  })
  afterAll(() => vendor.stop())
  return () => host
}

export class Host {
  readonly app: TestApp
  readonly sandboxes: MemorySandboxes
  readonly vendor: Vendor
  readonly #db: TestAppOptions['db']
  #organisation: Promise<string> | undefined
  /** Of an admin. */
  key = ''

  constructor(db: TestAppOptions['db'], vendor: Vendor, options: Partial<TestAppOptions>) {
    this.#db = db
    this.vendor = vendor
    this.sandboxes = new MemorySandboxes(() => this.app.deps.now())
    const { sandboxes } = this
    this.app = createTestApp({ db, sandboxes, onlyTools: gatewayTools, ...options })
  }

  get now(): number {
    return this.app.deps.now()
  }

  organisationId(): Promise<string> {
    return (this.#organisation ??= this.app.makeOrganisation())
  }

  /** Of another owner each, so that one may approve what another has asked. */
  async newKey(...scopes: Scope[]): Promise<string> {
    const { secret } = await this.app.makeKey(await this.organisationId(), ...scopes)
    return secret
  }

  async newApprover(owner = 'approver'): Promise<string> {
    await this.ok('PUT', '/v1/settings', { newKeysCount: true })
    const body = { name: owner, owner, scopes: ['approve'] }
    return (await this.ok('POST', '/v1/keys', body)).secret
  }

  call(method: string, path: string, body?: unknown, credential = this.key, headers = {}) {
    return this.app.call(method, path, credential, body, headers)
  }

  /** What it answers, which must be a success. */
  async ok(...request: Parameters<Host['call']>) {
    const { status, json } = await this.call(...request)
    expect([request[1], status < 300, json?.error]).toEqual([request[1], true, undefined])
    return json
  }

  /** Why it is refused. */
  async refusal(...request: Parameters<Host['call']>): Promise<[status: number, code: string]> {
    const { status, json } = await this.call(...request)
    return [status, json?.error?.code]
  }

  live(ms = 0): Promise<void> {
    return this.app.live(ms)
  }

  /** Rows of libSQL, once all that is known has got there. */
  async rows(sql: string, ...values: string[]): Promise<Record<string, unknown>[]> {
    await this.live()
    return (await this.#db().all(sql, ...values)).map((row) => ({ ...row }))
  }

  async configuration(body: object = {}): Promise<string> {
    const name = `c${Math.floor(this.now)}-${this.#made++}`
    return (await this.ok('POST', '/v1/configurations', { name, ...body })).id
  }
  #made = 0

  /** A session; its sandbox has been asked for, and its agent has not called yet. */
  async create(body: object = {}, credential = this.key): Promise<HostSession> {
    const { id } = await this.ok('POST', '/v1/sessions', body, credential)
    await this.live()
    return new HostSession(this, id)
  }

  /** A session whose sandbox is ready. */
  async begin(body: object = {}, credential = this.key): Promise<HostSession> {
    const session = await this.create(body, credential)
    await session.meet()
    return session
  }
}

export class HostSession {
  readonly id: string
  readonly at: string
  readonly host: Host
  agent!: LinkedAgent
  manifest!: Manifest

  constructor(host: Host, id: string) {
    this.host = host
    this.id = id
    this.at = `/v1/sessions/${id}`
  }

  view() {
    return this.host.ok('GET', this.at)
  }

  /** What the provider was told of the newest sandbox. */
  get spec(): SandboxSpec {
    const found = [...this.host.sandboxes.running.values()].map(({ spec }) => spec)
    const own = found.filter(({ sessionId }) => sessionId === this.id)
    const newest = own.toSorted((a, b) => b.generation - a.generation)[0]
    if (!newest) throw new Error('There is no sandbox')
    return newest
  }

  get sandbox() {
    const { sessionId, generation } = this.spec
    return this.host.sandboxes.running.get(nameOf(sessionId, generation))!
  }

  /** With the token that its sandbox was given, as the agent does it: the manifest, then the link. */
  async meet({ ready = true } = {}): Promise<LinkedAgent> {
    this.manifest = await this.host.ok('GET', `/sandbox/${this.id}/manifest`, undefined, this.token)
    await this.connect()
    await this.agent.meet({ ready })
    await this.host.live()
    return this.agent
  }

  get token(): string {
    return this.spec.token
  }

  /** The link alone. */
  async connect(token = this.token): Promise<LinkedAgent> {
    const socket = await this.host.app.link(this.id, token)
    if (!socket) throw new Error('The link was refused')
    this.agent = new LinkedAgent(socket)
    return this.agent
  }

  /** A turn that runs: the agent has its prompt. */
  async prompt(body: object = {}): Promise<{ id: string; runId: string }> {
    const turn = await this.host.ok('POST', `${this.at}/prompts`, { text: 'go', ...body })
    await this.host.live()
    for (const { id } of this.agent.commands('prompt'))
      if (id === turn.id) this.agent.result(id, { sent: true })
    await this.host.live()
    return turn
  }

  /** The id of a question, once it has been decided or parked. */
  async ask(...asked: Parameters<LinkedAgent['ask']>): Promise<string> {
    const askId = this.agent.ask(...asked)
    await this.host.live()
    return askId
  }

  approvalOf = (askId: string): string => approvalOf(this.id, askId)

  callback(tool: string, args: object = {}, id = `call_${this.#calls++}`, token = this.token) {
    const body = { tool_call_id: id, args }
    return this.host.call('POST', `/proliferate/${this.id}/tools/${tool}`, body, token)
  }
  #calls = 0

  async events(kind?: string) {
    const { items } = await this.host.ok('GET', `${this.at}/events?limit=500`)
    return kind === undefined
      ? items
      : items.filter((event: { kind: string }) => event.kind === kind)
  }

  /** The content of the file of the manifest whose path ends so. */
  file(end: string): string {
    const found = this.manifest.files.find(({ path }) => path.endsWith(end))
    if (!found) throw new Error(`No file "${end}"`)
    return found.content
  }
}
