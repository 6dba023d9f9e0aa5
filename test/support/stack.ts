import { mkdtempSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { root } from '../../local/binaries.ts'
import { type ControlPlaneKind, controlPlaneKinds } from '../../local/stack/control-plane.ts'
import { type Stack, type StackOptions, startStack } from '../../local/stack/stack.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import type { Session } from '../../src/contract/session.ts'
import { insertKey } from '../../src/core/registry/keys.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import type { Db } from '../../src/core/ports.ts'
import { parseConfig } from '../../src/config.ts'
import { type MintOptions, mintToken } from './agent.ts'
import { isLong } from './long.ts'

/** Every host of the control plane passes the same suite: the runtimes in every run, what serves workerd to people too in the long one. */
export const hosts: readonly Host[] = isLong ? controlPlaneKinds : ['workerd', 'deno']
export type Host = ControlPlaneKind

const seed = Number(process.env['GANTRY_SEED'] ?? 0)

/** Of a file that takes long: one host with each run, another one with the next seed. */
export const hostsOf = (file: string): readonly Host[] =>
  isLong ? hosts : [hosts[(seed + basename(file).length) % hosts.length] as Host]

export interface Answer {
  status: number
  headers: Headers
  text: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look at many shapes
  json: any
}

export interface TestStack extends Omit<Stack, 'stop' | 'erase'> {
  db: Db
  /** With the admin key, unless another credential is given. */
  api(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer>
  createSession(input?: Record<string, unknown>): Promise<Session>
  token(session: Pick<Session, 'id'>, options?: Partial<MintOptions>): Promise<string>
  /** A gateway call, as a sandbox makes it. */
  call(
    token: string,
    session: Pick<Session, 'id'>,
    tool: string,
    id: string,
    args?: object,
  ): Promise<Answer>
  restart(): Promise<void>
  log(): string
}
export interface RequestOptions {
  credential?: string
  headers?: Record<string, string>
  url?: string
}

/**
 * A whole stack without sandboxes, for one `describe`: with options one of its own, else an organisation of its own in the
 * one that this process has.
 */
export function useStack(
  host: Host,
  prepare?: () => Promise<Partial<StackOptions>> | undefined,
): () => TestStack {
  let stack: Stack
  let shown: TestStack
  beforeAll(async () => {
    stack = prepare
      ? await startBare(host, (await prepare()) ?? {})
      : await openShared(host, () => startBare(host))
    shown = testStack(stack)
  })
  if (prepare) afterAll(() => stack?.erase())
  return () => shown
}

const startBare = (host: Host, options: Partial<StackOptions> = {}): Promise<Stack> =>
  startStack({
    stateDir: mkdtempSync(join(tmpdir(), `gantry-${host}-`)),
    host,
    entry: join(root, 'test', 'support', host === 'deno' ? 'deno.ts' : 'worker.ts'),
    sandboxes: false,
    model: 'none',
    ...options,
    // Agents of these tests have no sandbox, and so no walls.
    env: {
      RATE_LIMIT_PER_MINUTE: '1000000',
      GANTRY_UNWALLED_APPROVALS: 'accept',
      ...options.env,
    },
  })

const shared = new Map<string, Promise<Stack>>()

/**
 * An organisation of its own in a stack that all files of this process use, one after the other. The stack ends with the
 * process.
 */
export async function openShared(name: string, start: () => Promise<Stack>): Promise<Stack> {
  const known = shared.get(name) ?? start()
  shared.set(name, known)
  const stack = await known
  // A test that has failed may have left it without them.
  await stack.sqld.start()
  await stack.worker.start()
  const db = createLibsql({
    url: stack.sqld.url,
    token: stack.sqld.token,
    requestTimeoutMs: 60_000,
  })
  const crypto = createWebCrypto(parseConfig(stack.env).sealKeys)
  const organisationId = await createOrganisation(db, crypto, Date.now(), 'test')
  const admin = { name: 'test', owner: 'local', scopes: ['admin' as const] }
  const { secret } = await insertKey(db, crypto, Date.now(), organisationId, admin)
  return { ...stack, organisationId, adminKey: secret }
}

function testStack(stack: Stack): TestStack {
  const api: TestStack['api'] = (method, path, body, { credential, headers, url } = {}) =>
    request(method, `${url ?? stack.url}${path}`, credential ?? stack.adminKey, body, headers)
  return {
    ...stack,
    db: createLibsql({ url: stack.sqld.url, token: stack.sqld.token, requestTimeoutMs: 60_000 }),
    api,
    async createSession(input = {}) {
      const { status, json, text } = await api('POST', '/v1/sessions', input)
      if (status !== 201) throw new Error(`Cannot create a session: ${text}`)
      return json as Session
    },
    token: (session, options = {}) =>
      mintToken(stack.env, {
        sessionId: session.id,
        organisationId: stack.organisationId,
        ...options,
      }),
    call: (token, session, tool, id, args = {}) =>
      request('POST', `${stack.url}/proliferate/${session.id}/tools/${tool}`, token, {
        tool_call_id: id,
        args,
      }),
    async restart() {
      stack.worker.kill('SIGKILL')
      await stack.worker.start()
    },
    log: () => readFileSync(stack.worker.logFile, 'utf8'),
  }
}

export async function request(
  method: string,
  url: string,
  credential: string | null,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json')
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson ? JSON.parse(text) : null,
  }
}

type Truthy<T> = Exclude<T, false | null | undefined | 0 | ''>

/** Polls until the value is truthy. */
export async function until<T>(look: () => T | Promise<T>, ms = 15_000): Promise<Truthy<T>> {
  const startedAt = Date.now()
  for (;;) {
    const value = await look()
    if (value) return value as Truthy<T>
    // A busy machine gets more.
    if (Date.now() - startedAt > Math.max(ms * 3, 120_000))
      throw new Error(`Not within ${ms} ms: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, 40))
  }
}

export interface Effects {
  url: string
  /** What tools have done outside, in order. */
  seen: { tool: string; sessionId: string; operationId: string; run: string }[]
  /** From now on effects are noted but their answers kept back, until the returned function is called. */
  hold(): () => void
  close(): void
}

/** The world outside, as the tools of test/support/tools.ts see it. */
export async function startEffects(): Promise<Effects> {
  const seen: Effects['seen'] = []
  let held: Promise<void> | null = null
  const server = createServer((incoming: IncomingMessage, outgoing: ServerResponse) => {
    const body: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => body.push(chunk))
    incoming.on('end', () => {
      seen.push(JSON.parse(Buffer.concat(body).toString()) as Effects['seen'][number])
      void Promise.resolve(held).then(() => outgoing.end('ok'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      held = promise
      return () => {
        held = null
        resolve()
      }
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

export interface Wire {
  url: string
  /** Breaks every connection at once, in both directions. */
  cut(): void
  close(): void
}

/** A piece of network between client and control plane that can be cut. */
export async function startWire(target: string): Promise<Wire> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((near) => {
    const far = connect(Number(new URL(target).port), '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => sockets.forEach((socket) => socket.resetAndDestroy())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    close() {
      cut()
      server.close()
    },
  }
}
