import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { root } from '../../local/binaries.ts'
import { createDenoSessions } from '../../src/hosts/deno/sessions.ts'
import type { DownMessage, UpMessage } from '../../src/contract/link.ts'
import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { insertKey } from '../../src/core/registry/keys.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import { createApp, parseConfig } from '../../src/http/app.ts'
import { createParts } from '../../src/parts.ts'
import { MemorySandboxes } from './memory-sandboxes.ts'

/** What a deployment is made of. The same names in every release, so that one can take over the data of another. */
export interface Release {
  createLocalSessions: typeof createDenoSessions
  gatewayTools: typeof gatewayTools
  createKey: typeof insertKey
  createOrganisation: typeof createOrganisation
  createApp: typeof createApp
  parseConfig: typeof parseConfig
  createParts: typeof createParts
}

export const thisRelease: Release = {
  createLocalSessions: createDenoSessions,
  gatewayTools,
  createKey: insertKey,
  createOrganisation,
  createApp,
  parseConfig,
  createParts,
}

export const fixtureOf = (version: string) => join(root, 'test/fixtures', version)

/** The code of a release as it was, bundled. Unpacked where it finds its packages. */
export async function oldRelease(version: string): Promise<Release> {
  const folder = join(root, 'node_modules/.cache', `gantry-${version}`)
  const file = join(folder, 'release.mjs')
  mkdirSync(folder, { recursive: true })
  writeFileSync(file, gunzipSync(readFileSync(join(fixtureOf(version), 'release.mjs.gz'))))
  return (await import(pathToFileURL(file).href)) as Release
}

export interface DeploymentOptions {
  dataDir: string
  libsql: { url: string; token: string }
  now: () => number
}

const secret = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')

/** One release over a folder and a libSQL server: the real app and actors, with sandboxes that only keep books. */
export function deploy(release: Release, { dataDir, libsql, now }: DeploymentOptions) {
  const parts = release.createParts(
    release.parseConfig({
      LIBSQL_URL: libsql.url,
      LIBSQL_TOKEN: libsql.token,
      GANTRY_ID_SECRET: secret(16),
      GANTRY_TOKEN_KEYS: `k:${secret(32)}`,
      GANTRY_SEAL_KEYS: `k:${secret(32)}`,
      GANTRY_PUBLIC_URL: 'http://127.0.0.1:1',
    }),
  )
  const sandboxes = new MemorySandboxes(now)
  const logs: string[] = []
  const shared = {
    ...parts,
    now,
    provider: async () => sandboxes,
    webhooks: { refusal: () => null, post: async () => ({ status: 500 }) },
    log: (level: string, message: string, fields: object) =>
      void logs.push(`${level} ${message} ${JSON.stringify(fields)}`),
  }
  const sessions = release.createLocalSessions({
    ...shared,
    config: { ...parts.sessionConfig, defaultSandbox: 'none' },
    creation: parts.config,
    tools: release.gatewayTools,
    dataDir,
  })
  const app = release.createApp({
    ...shared,
    ...sessions,
    openLink: () => Promise.reject(new Error('No sockets here')),
    tools: release.gatewayTools.map((tool) => tool.definition),
    host: 'deno',
    addressOf: () => 'test',
    defer: (work) => void work.catch(() => undefined),
  })

  async function call(method: string, path: string, credential: string, body?: unknown) {
    const isBytes = body instanceof Uint8Array
    const response = await app.request(path, {
      method,
      headers: {
        authorization: `Bearer ${credential}`,
        ...(body === undefined || isBytes ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: isBytes ? (body as never) : JSON.stringify(body) }),
    })
    const text = await response.text()
    // `any` by JSON.parse: callers look at many shapes.
    return { status: response.status, json: text.startsWith('{') ? JSON.parse(text) : null, text }
  }

  return {
    call,
    parts,
    logs,
    sandboxes,
    token: async (sessionId: string, organisationId: string, generation = 1) =>
      (await parts.tokens.mint({ sessionId, organisationId, generation })).token,
    /** The agent's side of the link. */
    link(sessionId: string, generation = 1) {
      const sent: DownMessage[] = []
      const socket = {
        readyState: 1,
        send: (text: string) => void sent.push(JSON.parse(text) as DownMessage),
        close() {
          this.readyState = 3
        },
      }
      const link = sessions.link(sessionId, generation, socket)
      return { sent, say: (up: UpMessage) => link.message(JSON.stringify(up)) }
    },
    close: () => sessions.close(),
  }
}
export type Deployment = ReturnType<typeof deploy>

/** Polls, on a machine that may be very busy. */
export async function until<T>(look: () => Promise<T | null | undefined | false>): Promise<T> {
  for (const startedAt = Date.now(); ;) {
    const found = await look()
    if (found) return found
    if (Date.now() - startedAt > 120_000) throw new Error(`Not within 120 s: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
