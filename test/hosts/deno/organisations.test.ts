import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { createDenoSessions } from '../../../src/hosts/deno/sessions.ts'
import { Firewall } from '../../../src/contract/limits.ts'
import { SessionCreate } from '../../../src/contract/session.ts'
import { gatewayTools } from '../../../src/core/session/calls/tools/registry.ts'
import { parseConfig } from '../../../src/config.ts'
import { createParts } from '../../../src/parts.ts'
import { useLibsql } from '../../support/libsql.ts'
import { MemorySandboxes } from '../../support/memory-sandboxes.ts'
import { sandboxSpec } from '../../support/sandbox-spec.ts'

const libsql = useLibsql()
const organisationId = `org_${'1'.repeat(20)}`
const caller = { organisationId, keyId: 'key_a', memberId: 'mbr_tester', owner: 'tester' }
const secret = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')
const ends: (() => void)[] = []
afterEach(() => ends.splice(0).forEach((end) => end()))

function freshFolder(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'gantry-organisations-'))
  ends.push(() => rmSync(dataDir, { recursive: true, force: true }))
  return dataDir
}

/** As the Deno host has them, with a provider that only keeps books and a reconciler in a hurry. */
function start(sandboxes: MemorySandboxes, dataDir = freshFolder()) {
  const parts = createParts(
    parseConfig({
      LIBSQL_URL: libsql.server().url,
      LIBSQL_TOKEN: libsql.server().token,
      GANTRY_ID_SECRET: secret(16),
      GANTRY_TOKEN_KEYS: `k:${secret(32)}`,
      GANTRY_SEAL_KEYS: `k:${secret(32)}`,
      GANTRY_PUBLIC_URL: 'http://127.0.0.1:1',
    }),
  )
  const sessions = createDenoSessions({
    ...parts,
    log: () => {},
    config: parts.sessionConfig,
    creation: parts.config,
    provider: async () => sandboxes,
    firewall: Firewall.parse({ reconcileSeconds: 1, graceSeconds: 1 }),
    now: () => Date.now(),
    tools: gatewayTools,
    dataDir,
    limits: { idleMs: 30, maxOpen: 1000 },
  })
  let closed = false
  const close = () => {
    if (!closed) sessions.close()
    closed = true
  }
  ends.unshift(close)
  return { sessions, organisation: sessions.organisation(organisationId), dataDir, close }
}

const claim = { sessionId: 'ses_a', generation: 1, project: 'default', provider: 'local' } as const
const withStray = () => {
  const sandboxes = new MemorySandboxes(() => Date.now())
  sandboxes.place(sandboxSpec({ sessionId: 'ses_stray', organisationId }))
  return sandboxes
}

async function until(look: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedAt = Date.now(); !(await look());) {
    if (Date.now() - startedAt > 120_000) throw new Error(`Not within 120 s: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

test('[FIRE13] on Deno too: an organisation that sleeps is woken by its own deadline', async () => {
  const sandboxes = withStray()
  const { organisation } = start(sandboxes)
  await organisation.sandboxes.reserve(claim)
  await until(() => sandboxes.running.size === 0)
  await until(async () => {
    const rows = await libsql
      .db()
      .all('select 1 from sandbox_actions where organisation_id = ?', organisationId)
    return rows.length >= 2
  })
})

test('[FIRE13] also in the next process, which nobody asks anything', async () => {
  const sandboxes = withStray()
  const first = start(sandboxes)
  await first.organisation.sandboxes.reserve(claim)
  first.close()
  expect(sandboxes.running.size).toBe(1)
  start(sandboxes, first.dataDir)
  await until(() => sandboxes.running.size === 0)
})

test('[FIRE18] also after a process that was killed in the middle', async () => {
  const sandboxes = withStray()
  const first = start(sandboxes)
  await first.organisation.sandboxes.reserve(claim)
  const copy = freshFolder()
  cpSync(first.dataDir, copy, { recursive: true })
  first.close()
  const { organisation } = start(sandboxes, copy)
  await until(() => sandboxes.running.size === 0)
  expect((await organisation.firewall.limits(null)).usage.concurrentSandboxes).toBe(1)
})

test('[FIRE11] a kill switch stops the sandbox of a real session, which stays open', async () => {
  const sandboxes = new MemorySandboxes(() => Date.now())
  const { sessions, organisation } = start(sandboxes)
  const sessionId = 'ses_a'
  const session = sessions.session(sessionId)
  await session.self.create({
    ...caller,
    sessionId,
    input: SessionCreate.parse({ sandbox: 'local' }),
  })
  await until(() => sandboxes.running.size === 1)
  await organisation.firewall.setKillSwitch({ on: true, reason: 'bill' }, 'key')
  await until(() => sandboxes.running.size === 0)
  await until(async () => (await organisation.firewall.killSwitch()).liveSandboxes === 0)
  // It had not begun to work: it waits for the switch to be lifted, and goes on then.
  const words = 'the kill switch of the organisation is on: bill'
  await until(
    async () => (await session.self.view(caller)).sandbox.reason?.includes(words) === true,
  )
  const { status, sandbox } = await session.self.view(caller)
  expect([status, sandbox.state]).toEqual(['open', 'requested'])
})
