import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parseEnv } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { gantryObjects, prepareControlPlane } from '../../local/stack/control-plane.ts'
import type { Part } from '../../local/processes/part.ts'
import { freePort } from '../../local/state/ports.ts'
import type { Session } from '../../src/contract/session.ts'
import { type E2bWorld, startE2bWorld } from '../support/e2b-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { request, until } from '../support/stack.ts'

// docs/deploy.md, followed literally on what a deployment has: a libSQL server that wants a token, the built Worker or the
// Deno host, and E2B. Nothing of the local stack is there.

const page = readFileSync(join(root, 'docs', 'deploy.md'), 'utf8')
const why = whyNoMachines()

type Bindings = Record<string, string>

/** The commands under a heading, block by block. */
function blocksOf(heading: string): string[] {
  const section = page.split(/^## /m).find((each) => each.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`docs/deploy.md has no heading "${heading}"`)
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block)
}

describe.skipIf(why !== null)(`docs/deploy.md${why ?? ''}`, { timeout: 240_000 }, () => {
  let folder: string
  let e2b: E2bWorld
  let ports: { libsql: number; api: number; cloudflare: number }
  let deployed: Part | undefined
  let isBuilt = false
  const endings: (() => unknown)[] = []

  beforeAll(async () => {
    folder = checkout()
    e2b = await startE2bWorld()
    endings.push(() => e2b.close())
    ports = { libsql: await freePort(), api: await freePort(), cloudflare: await startCloudflare() }
  }, 60_000)
  afterAll(async () => {
    await deployed?.stop()
    for (const end of endings.toReversed()) await end()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  /** Everything in which the commands of this test differ from those on the page. */
  const substitutions = (): [onThePage: string, here: string][] => [
    ['npm install\n', '\n'],
    // Once is enough.
    ...(isBuilt ? [['npm run build\n', '\n'] as [string, string]] : []),
    ['libsql://gantry-acme.turso.io', `http://127.0.0.1:${ports.libsql}`],
    ['turso db tokens create gantry-acme', 'cat libsql.token'],
    [
      'GANTRY_E2B_API_KEY=e2b_0123456789abcdef',
      `GANTRY_E2B_API_KEY=${e2b.double.apiKey}\nGANTRY_E2B_API_URL=${e2b.double.url}\nGANTRY_E2B_SANDBOX_URL=${e2b.double.url}`,
    ],
    ['API=https://gantry.example.com', `API=http://127.0.0.1:${ports.api}`],
    ['npm run wrangler -- login\n', '\n'],
    // Cloudflare takes the bundle and the variables, and runs them.
    [
      'npm run wrangler -- deploy dist/worker.js --no-bundle --secrets-file production.env',
      `curl -sS --fail-with-body --data-binary @production.env http://127.0.0.1:${ports.cloudflare}`,
    ],
    ['/var/lib/libsql', './libsql-data'],
    ['127.0.0.1:8080', `127.0.0.1:${ports.libsql}`],
    ['/var/lib/gantry', './gantry-data'],
    ['PORT=8787', `PORT=${ports.api}`],
  ]
  const here = (block: string) =>
    substitutions().reduce((line, [from, to]) => line.replaceAll(from, to), block)

  function bash(script: string): ChildProcess {
    const { PATH = '', HOME = '' } = process.env
    return spawn('bash', ['-euo', 'pipefail', '-c', here(script)], {
      cwd: folder,
      env: { PATH, HOME },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
  }

  /** Runs a block to its end. Returns what it printed on standard output. */
  async function follow(script: string): Promise<string> {
    const child = bash(script)
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    const [out, err] = await Promise.all(
      [child.stdout, child.stderr].map(async (stream) => (stream === null ? '' : text(stream))),
    )
    if ((await ended) !== 0) throw new Error(`${here(script)}\n${out}\n${err}`)
    return out ?? ''
  }

  /** Runs a block that does not end, until the test does or the returned function is called. */
  async function serve(script: string, isUp: () => Promise<boolean>): Promise<() => Promise<void>> {
    const child = bash(`exec ${script.trim().replace(/^(?:\w+=\S+ )+/, (set) => `env ${set}`)}`)
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
    for (const stream of [child.stdout, child.stderr]) stream?.resume()
    const stop = async () => {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
      await ended
    }
    endings.push(stop)
    await until(() => isUp().catch(() => false), 30_000)
    return stop
  }

  /** Where `wrangler deploy` goes: workerd on the bundle that was built, with the variables that were sent. */
  async function startCloudflare(): Promise<number> {
    const server = createServer((incoming, outgoing) => {
      void text(incoming)
        .then((file) => deploy(parseEnv(file) as Bindings))
        .then(
          () => outgoing.end(),
          (error: unknown) => outgoing.writeHead(500).end(String(error)),
        )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    endings.push(() => server.close())
    return (server.address() as AddressInfo).port
  }

  async function deploy(bindings: Bindings): Promise<void> {
    await deployed?.stop()
    deployed = undefined
    const launch = await prepareControlPlane({
      kind: 'workerd',
      port: ports.api,
      stateDir: folder,
      mark: 'stk_deploy',
      entry: join(root, 'src', 'worker.ts'),
      bundle: join(folder, 'dist', 'worker.js'),
      objects: gantryObjects,
      bindings,
      healthPath: '/healthz',
    })
    deployed = await launch()
  }

  const api = (path: string, key: string | null = null) =>
    request('GET', `http://127.0.0.1:${ports.api}${path}`, key)
  const sessionIn = (output: string) =>
    JSON.parse(output.slice(output.lastIndexOf('{"id":"ses_'))) as Session
  const keyIn = (file: string) => readFileSync(join(folder, file), 'utf8').trim()

  /** The page from its beginning until an organisation has its first key. */
  async function prepare(): Promise<void> {
    const [keys = '', server = ''] = blocksOf('A libSQL server of your own')
    await follow(keys)
    const url = `http://127.0.0.1:${ports.libsql}`
    await serve(server, async () => (await fetch(`${url}/health`)).ok)
    expect((await fetch(`${url}/v2/pipeline`, { method: 'POST', body: '{}' })).status).toBe(401)
    for (const block of blocksOf('1. The variables')) await follow(block)
    await lookTooEarly()
    for (const block of blocksOf('2. The database')) await follow(block)
  }

  /** What the built Worker says to whoever deploys before everything is there. */
  async function lookTooEarly(): Promise<void> {
    await follow('npm run build')
    isBuilt = true
    await deploy({})
    const { status, json } = await api('/healthz')
    expect([status, json.missing.length]).toEqual([200, 5])
    expect((await api('/readyz')).status).toBe(503)
    expect(await api('/v1/sessions')).toMatchObject({
      status: 503,
      json: { error: { code: 'not_configured' } },
    })
    await deploy(parseEnv(readFileSync(join(folder, 'production.env'), 'utf8')) as Bindings)
    const ready = await api('/readyz')
    expect([ready.status, ready.text]).toEqual([
      503,
      expect.stringContaining('npm run admin -- migrate'),
    ])
    expect((await api('/v1/sessions', `gk_${'a'.repeat(32)}`)).status).toBe(503)
  }

  /** Its sandbox runs at E2B, and has been told where to call. */
  async function expectSandbox(session: Session): Promise<void> {
    expect(session.sandbox.provider).toBe('e2b')
    await until(async () => (await e2b.tokens(session.id, 1)).length === 1, 30_000)
  }

  test('[OPS13] [OPS2] [OPS3] the commands lead to the first session of a second organisation, on Cloudflare and on Deno', async () => {
    await prepare()
    for (const block of blocksOf('3. Cloudflare')) await follow(block)
    const first = sessionIn(await follow(blocksOf('4. The first session').join('\n')))
    const second = sessionIn(await follow(blocksOf('5. Another organisation').join('\n')))
    await Promise.all([expectSandbox(first), expectSandbox(second)])
    expect(first.organisationId).not.toBe(second.organisationId)
    expect((await api(`/v1/sessions/${first.id}`, keyIn('globex.key'))).status).toBe(404)
    expect((await api(`/v1/sessions/${second.id}`, keyIn('globex.key'))).status).toBe(200)

    await follow(blocksOf('A new release').join('\n'))
    expect((await api(`/v1/sessions/${first.id}`, keyIn('acme.key'))).status).toBe(200)

    await deployed?.stop()
    deployed = undefined
    const [server = ''] = blocksOf('Deno instead of Cloudflare')
    await serve(server, async () => (await api('/readyz')).status === 200)
    expect((await api('/healthz')).json).toMatchObject({ ok: true, missing: [] })
    await expectSandbox(sessionIn(await follow(blocksOf('4. The first session').join('\n'))))
    expect(e2b.double.refused).toEqual([])
  })
})

/** A folder that is this checkout, but for what the commands write into it. */
function checkout(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-deploy-'))
  mkdirSync(join(root, 'dist'), { recursive: true })
  for (const name of readdirSync(root)) {
    if (!['.git', '.gantry', '.wrangler', '.dev.vars'].includes(name))
      symlinkSync(join(root, name), join(folder, name))
  }
  return folder
}
