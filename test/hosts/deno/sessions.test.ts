import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type LocalSessions, createDenoSessions } from '../../../src/hosts/deno/sessions.ts'
import { SessionSockets } from '../../../src/hosts/deno/sockets.ts'
import type { SessionEvent } from '../../../src/contract/events.ts'
import { linkClose } from '../../../src/contract/link.ts'
import { SessionCreate } from '../../../src/contract/session.ts'
import { gatewayTools } from '../../../src/core/session/calls/tools/registry.ts'
import { parseConfig } from '../../../src/config.ts'
import { createParts } from '../../../src/parts.ts'
import { useLibsql } from '../../support/libsql.ts'

const libsql = useLibsql()
const caller = { organisationId: 'org_a', keyId: 'key_a', memberId: 'mbr_tester', owner: 'tester' }
const secret = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')
const ends: (() => void)[] = []
afterEach(() => ends.splice(0).forEach((end) => end()))

function freshFolder(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'gantry-sessions-'))
  ends.push(() => rmSync(dataDir, { recursive: true, force: true }))
  return dataDir
}

function start(options: {
  dataDir?: string
  idleMs?: number
  maxOpen?: number
  retentionMs?: number
}) {
  const { dataDir = freshFolder(), idleMs = 60_000, maxOpen = 1000, retentionMs = 1e9 } = options
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
    config: { ...parts.sessionConfig, retentionMs },
    creation: parts.config,
    now: () => Date.now(),
    tools: gatewayTools,
    dataDir,
    limits: { idleMs, maxOpen },
  })
  let closed = false
  const close = () => {
    if (!closed) sessions.close()
    closed = true
  }
  ends.unshift(close)
  const files = () => {
    const folder = join(dataDir, 'sessions')
    return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.sqlite')) : []
  }
  return { sessions, dataDir, close, files }
}

const create = (sessions: LocalSessions, sessionId: string, input: object = {}) =>
  sessions
    .session(sessionId)
    .self.create({ ...caller, sessionId, input: SessionCreate.parse(input) })

async function until(look: () => boolean | Promise<boolean>): Promise<void> {
  for (const startedAt = Date.now(); !(await look());) {
    if (Date.now() - startedAt > 120_000) throw new Error(`Not within 120 s: ${String(look)}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

function fakeSocket() {
  const sent: string[] = []
  return {
    sent,
    readyState: 1,
    closedWith: 0,
    send: (text: string) => void sent.push(text),
    close(code: number) {
      this.readyState = 2
      this.closedWith = code
    },
  }
}
const hello = JSON.stringify({ t: 'hello', protocols: [1], agent: 'a', boot: 'b', ready: false })

describe('sessions in one process', () => {
  test('[SES3] a session that was never created is not found and leaves no file', async () => {
    const { sessions, files } = start({})
    await expect(sessions.session('ses_a').self.view(caller)).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(sessions.watch('ses_a', caller)).rejects.toMatchObject({ code: 'not_found' })
    await expect(create(sessions, 'ses_a', { sandbox: 'local' })).rejects.toMatchObject({
      code: 'unprocessable',
    })
    expect(files()).toEqual([])
  })

  test('an id that is no file name is refused', async () => {
    const { sessions } = start({})
    await expect(sessions.session('../a').self.view(caller)).rejects.toThrow('not an id')
  })

  test('one instance serves everybody who comes at once', async () => {
    const { sessions, files } = start({})
    const made = await Promise.all(Array.from({ length: 10 }, () => create(sessions, 'ses_a')))
    expect(new Set(made.map((session) => session.createdAt)).size).toBe(1)
    expect(made.every(({ lastEventSeq }) => lastEventSeq === 1)).toBe(true)
    expect(files()).toEqual(['ses_a.sqlite'])
  })

  test('an idle session is closed, and opened again when it is asked', async () => {
    const { sessions } = start({ idleMs: 40 })
    await create(sessions, 'ses_a', { title: 'kept' })
    await until(() => sessions.openCount() === 0)
    expect(await sessions.session('ses_a').self.view(caller)).toMatchObject({ title: 'kept' })
    expect(sessions.openCount()).toBe(1)
  })

  test('what it still waits for keeps it open', async () => {
    const { sessions } = start({ idleMs: 20 })
    await create(sessions, 'ses_a')
    await until(() => sessions.openCount() === 0)
    const waits = sessions.session('ses_a').turns.wait(caller, 'trn_a', 200)
    await expect(waits).rejects.toMatchObject({ code: 'not_found' })
    expect(sessions.openCount()).toBe(1)
    await until(() => sessions.openCount() === 0)
  })

  test('no more are open than the limit allows', async () => {
    const { sessions, files } = start({ maxOpen: 5 })
    for (let i = 0; i < 30; i++) await create(sessions, `ses_${i}`)
    await until(async () => (await sessions.ledgerStatus(null)).pendingSessions === 0)
    let others = 0
    await until(async () => {
      await expect(sessions.session(`ses_other${others++}`).self.view(caller)).rejects.toThrow()
      return sessions.openCount() === 5
    })
    expect(files()).toHaveLength(30)
  })

  test('[SES7] a sleeping session is woken by its deadline', async () => {
    const { sessions, files } = start({ idleMs: 40, retentionMs: 700 })
    await create(sessions, 'ses_a')
    await sessions.session('ses_a').self.close(caller, 'done')
    await until(() => sessions.openCount() === 0)
    expect(files()).toHaveLength(1)
    await until(() => files().length === 0)
    await expect(sessions.session('ses_a').self.view(caller)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('[SES7] also in the next process', async () => {
    const first = start({ retentionMs: 700 })
    await create(first.sessions, 'ses_a')
    await first.sessions.session('ses_a').self.close(caller, 'done')
    first.close()
    const { files } = start({ dataDir: first.dataDir })
    expect(files()).toHaveLength(1)
    await until(() => files().length === 0)
  })

  test('a second process is refused the folder', async () => {
    const { dataDir } = start({})
    expect(() => start({ dataDir })).toThrow(`Cannot use data directory "${dataDir}"`)
  })

  test('[SES2] an Idempotency-Key stands for one session, also after the organisation slept', async () => {
    const { sessions } = start({ idleMs: 20 })
    expect(await sessions.organisation('org_a').creations.claim('k', 'h', 'ses_a')).toBe('ses_a')
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect(await sessions.organisation('org_a').creations.claim('k', 'h', 'ses_b')).toBe('ses_a')
  })
})

describe('sockets', () => {
  test('[LINK3] ping is answered, a greeted agent counts as connected, a newer one supersedes it', async () => {
    const { sessions } = start({})
    await create(sessions, 'ses_a')
    const connected = async () =>
      (await sessions.session('ses_a').self.view(caller)).sandbox.connected
    const [old, next] = [fakeSocket(), fakeSocket()]
    const link = sessions.link('ses_a', 1, old)
    link.message('ping')
    expect(old.sent).toEqual(['pong'])
    expect(await connected()).toBe(false)
    link.message(hello)
    await until(connected)
    expect(old.sent[1]).toContain('welcome')

    const newer = sessions.link('ses_a', 1, next)
    expect(old.closedWith).toBe(linkClose.superseded)
    newer.message(hello)
    await until(connected)
    // What the old one still says is heard by nobody.
    await until(() => next.sent.length > 0)
    const { length } = next.sent
    link.message(hello)
    await connected()
    expect(next.sent).toHaveLength(length)
    link.closed()
    expect(await connected()).toBe(true)
    next.readyState = 3
    newer.closed()
    expect(await connected()).toBe(false)
  })

  test('[LINK3] a linked session sleeps too, and its agent stays connected', async () => {
    const { sessions } = start({ idleMs: 40 })
    await create(sessions, 'ses_a')
    const socket = fakeSocket()
    const link = sessions.link('ses_a', 1, socket)
    link.message(hello)
    await until(() => socket.sent.length > 0)
    await until(() => sessions.openCount() === 0)
    link.message('ping')
    expect(sessions.openCount()).toBe(0)
    expect((await sessions.session('ses_a').self.view(caller)).sandbox.connected).toBe(true)
  })

  test('[LIFE21] a ping is a sign of life of the present socket only', () => {
    const sockets = new SessionSockets()
    const [old, next] = [fakeSocket(), fakeSocket()]
    expect(sockets.heardAt()).toBeNull()
    sockets.accept(old, 1)
    sockets.heard(old, 2)
    expect(sockets.heardAt()).toBe(2)
    sockets.accept(next, 3)
    sockets.heard(old, 9)
    expect(sockets.heardAt()).toBe(3)
    next.readyState = 2
    expect(sockets.heardAt()).toBeNull()
  })

  test('[LINK4] an old generation is fenced', async () => {
    const { sessions } = start({})
    await create(sessions, 'ses_a')
    const socket = fakeSocket()
    const link = sessions.link('ses_a', 1, socket)
    link.message(hello)
    await sessions.session('ses_a').sandbox.replace(caller, 'test')
    expect(socket.closedWith).toBe(linkClose.fenced)
    const late = fakeSocket()
    sessions.link('ses_a', 1, late).message(hello)
    await until(() => late.closedWith === linkClose.fenced)
  })

  test('[EVT7] watchers get what is committed, and end with the session', async () => {
    const { sessions } = start({})
    await create(sessions, 'ses_a')
    const feed = (await sessions.watch('ses_a', caller)).getReader()
    await sessions.session('ses_a').self.close(caller, 'done')
    for (let kind = ''; kind !== 'session.closed';) kind = (await feed.read()).value?.kind ?? 'none'
    await sessions.session('ses_a').self.erase(caller)
    for (let done = false; !done;) ({ done } = await feed.read())
  })

  test('a slow watcher may miss events, but not the last one', async () => {
    const sockets = new SessionSockets()
    const feed = sockets.watch(() => {}).getReader()
    const event = (seq: number) =>
      ({ seq, at: 1, kind: 'session.closed', data: {} }) as unknown as SessionEvent
    for (let seq = 1; seq <= 5000; seq++) sockets.publish([event(seq)])
    const seen: number[] = []
    while (seen.at(-1) !== 5000) seen.push((await feed.read()).value?.seq ?? 0)
    expect(seen.length).toBeLessThan(300)
    await feed.cancel()
    expect(sockets.unused()).toBe(true)
  })
})
