import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { binary, root } from '../../../local/binaries.ts'
import { freePort } from '../../../local/state/ports.ts'
import { createWebCrypto } from '../../../src/adapters/web-crypto.ts'
import type { ErrorBody } from '../../../src/contract/error.ts'
import type { Session } from '../../../src/contract/session.ts'
import { insertKey } from '../../../src/core/registry/keys.ts'
import { createOrganisation } from '../../../src/core/registry/organisations.ts'
import { secretKey } from '../../support/keys.ts'
import { useLibsql } from '../../support/libsql.ts'
import { until } from '../../support/release.ts'

const libsql = useLibsql()
const folder = mkdtempSync(join(tmpdir(), 'gantry-full-'))
const disk = join(folder, 'disk')
const isMounted = mount()
const ends: (() => void)[] = []
afterAll(() => {
  for (const end of ends) end()
  if (isMounted) execFileSync('umount', ['--lazy', disk])
  rmSync(folder, { recursive: true, force: true })
})

/** A disk of its own, which can be filled. Only root may; elsewhere the test counts as skipped. */
function mount(): boolean {
  mkdirSync(disk)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', disk], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** A session, a run or a refusal. */
type Answer = Partial<Pick<Session, 'id' | 'title'> & ErrorBody>

const secret = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')

/** Data and log are on the same small disk. */
async function startHost() {
  const port = await freePort()
  const log = openSync(join(disk, 'host.log'), 'a')
  const child = spawn(binary('deno'), ['run', '-A', join(root, 'src/deno.ts')], {
    cwd: root,
    stdio: ['ignore', log, log],
    env: {
      ...process.env,
      PORT: String(port),
      GANTRY_DATA_DIR: join(disk, 'data'),
      LIBSQL_URL: libsql.server().url,
      LIBSQL_TOKEN: libsql.server().token,
      GANTRY_ID_SECRET: secret(16),
      GANTRY_TOKEN_KEYS: `k:${secret(32)}`,
      GANTRY_SEAL_KEYS: `k:${secret(32)}`,
      GANTRY_PUBLIC_URL: `http://127.0.0.1:${port}`,
    },
  })
  ends.push(() => child.kill('SIGKILL'))
  return { child, url: `http://127.0.0.1:${port}` }
}

test.skipIf(!isMounted)(
  '[REL10] the Deno host outlives a full disk: calls get a 503 that may be repeated, and then go on',
  async () => {
    const { child, url } = await startHost()
    const alive = () =>
      fetch(`${url}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      )
    await until(alive)
    const crypto = createWebCrypto([secretKey('s')])
    const organisationId = await createOrganisation(libsql.db(), crypto, 1, 'test')
    const scopes = { name: 'k', owner: 'k', scopes: ['admin' as const] }
    const key = await insertKey(libsql.db(), crypto, 1, organisationId, scopes)
    const api = async (method: string, path: string, body?: object) => {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      })
      return { status: answer.status, json: (await answer.json()) as Answer }
    }
    const create = () => api('POST', '/v1/sessions', { title: 'x', sandbox: 'none' })
    const kept = await create()
    expect(kept.status).toBe(201)

    const filler = join(disk, 'filler')
    expect(() => writeFileSync(filler, Buffer.alloc(9 * 1024 * 1024))).toThrow('ENOSPC')
    const answers: unknown[] = []
    for (let n = 0; n < 30; n++) {
      const { status, json } = await create()
      answers.push(status === 201 ? 201 : [status, json.error?.code])
    }
    // A few may still fit; none is a fault of ours.
    expect(new Set(answers.map(String))).toContain('503,storage_unavailable')
    expect(
      answers.map(String).filter((answer) => !['201', '503,storage_unavailable'].includes(answer)),
    ).toEqual([])
    const run = () => api('POST', `/v1/sessions/${kept.json.id}/runs`, { intent: 'x'.repeat(3000) })
    await until(async () => (await run()).json.error?.code === 'storage_unavailable')
    expect([child.exitCode, child.signalCode, await alive()]).toEqual([null, null, true])

    rmSync(filler)
    await until(async () => (await create()).status === 201)
    expect((await run()).status).toBe(201)
    expect((await api('GET', `/v1/sessions/${kept.json.id}`)).json).toMatchObject({ title: 'x' })
    expect([child.exitCode, child.signalCode]).toEqual([null, null])
  },
)
