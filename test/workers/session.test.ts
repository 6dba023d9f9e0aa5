import {
  abortAllDurableObjects,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
} from 'cloudflare:test'
import { env as bindings } from 'cloudflare:workers'
import { describe, expect, test } from 'vitest'
import { type Env, bindParts, sessionApi } from '../../durable-objects/bindings.ts'
import { Opened } from '../../durable-objects/opened.ts'
import type { SessionObject } from '../../durable-objects/session.ts'
import { createSessionHost } from '../../durable-objects/session-host.ts'
import { durableSqlite } from '../../durable-objects/sqlite.ts'
import { createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import { setDeadline } from '../../src/core/actor/deadlines.ts'
import type { SessionApi } from '../../src/core/session/session.ts'

const env = bindings as unknown as Env & Record<string, string>
const organisationId = `org_${'1'.repeat(20)}`
const caller = {
  organisationId,
  keyId: `key_${'1'.repeat(20)}`,
  memberId: 'mbr_tester',
  owner: 'tester',
}
const sandbox = { organisationId, generation: 1 }

type Stub = DurableObjectStub<SessionObject>

async function newStub(): Promise<{ id: string; stub: Stub; session: SessionApi }> {
  const secret = Uint8Array.from(atob(env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
    letter.charCodeAt(0),
  )
  const id = await createCryptoSessionIds(secret).mint()
  const stub: Stub = env.SESSION.getByName(id)
  return { id, stub, session: sessionApi(env, id) }
}
async function newSession(): Promise<{ id: string; stub: Stub; session: SessionApi }> {
  const made = await newStub()
  await made.session.self.create({
    sessionId: made.id,
    ...caller,
    input: SessionCreate.parse({ sandbox: 'none' }),
  })
  return made
}
const call = (
  session: SessionApi,
  tool: string,
  toolCallId: string,
  args: Record<string, unknown> = {},
) => session.calls.call(sandbox, { tool, toolCallId, args })
const rows = (stub: Stub, query: string) =>
  runInDurableObject(stub, (_, state) => state.storage.sql.exec(query).toArray())

async function until<T>(look: () => Promise<T>): Promise<T> {
  for (let tries = 0; tries < 6000; tries++) {
    const value = await look()
    if (value) return value
    await scheduler.wait(20)
  }
  throw new Error(`Never: ${String(look)}`)
}

describe('a session that was never created', () => {
  test('[SES3] answers not_found on every door and has no tables', async () => {
    const { stub, session } = await newStub()
    const every = [
      () => session.self.view(caller),
      () => session.self.close(caller, 'x'),
      () => session.self.erase(caller),
      () => session.turns.prompt(caller, { text: 'x', steer: false }, null),
      () => session.log.events(caller, 0, 10),
      () => session.calls.call(sandbox, { tool: 'noop', toolCallId: 'x', args: {} }),
      () => session.agent.authorise(sandbox),
      () => session.agent.manifest(sandbox),
    ]
    for (const door of every) await expect(door()).rejects.toMatchObject({ code: 'not_found' })
    expect(
      await rows(stub, `select name from sqlite_master where name not like '\\_cf%' escape '\\'`),
    ).toEqual([])
    expect(await runInDurableObject(stub, (_, state) => state.storage.getAlarm())).toBeNull()
  })
})

describe('refusals over RPC', () => {
  test('[API1] code, message and details survive', async () => {
    const { session } = await newSession()
    await expect(call(session, 'nope', 'x')).rejects.toMatchObject({
      code: 'unknown_tool',
      message: 'Unknown tool: nope',
    })
    await expect(session.agent.authorise({ ...sandbox, generation: 2 })).rejects.toMatchObject({
      code: 'old_generation',
    })
    const large = call(session, 'noop', 'x', { text: 'x'.repeat(300_000) })
    await expect(large).rejects.toMatchObject({ code: 'too_large', details: [{ path: 'args' }] })
    await expect(call(session, 'unavailable', 'x', { times: 1 })).rejects.toMatchObject({
      code: 'storage_unavailable',
    })
  })
})

describe('eviction', () => {
  test('[CALL4] a settled call is replayed byte for byte by the next instance', async () => {
    const { stub, session } = await newSession()
    const first = await call(session, 'noop', 'x', { text: '\u{1f600}' })
    await evictDurableObject(stub)
    expect(await call(session, 'noop', 'x', { text: '\u{1f600}' })).toEqual({
      body: first.body,
      replayed: true,
    })
  })

  test('[CALL4] replays are found whether they come after many new ids or after each other', async () => {
    const { session } = await newSession()
    const ids = Array.from({ length: 40 }, (_, n) => `id-${n}`)
    const firsts = []
    for (const id of ids) firsts.push(await call(session, 'noop', id, { text: id }))
    expect(firsts.filter(({ replayed }) => replayed)).toEqual([])
    for (const [n, id] of ids.entries())
      expect(await call(session, 'noop', id, { text: id })).toEqual({
        body: firsts[n]?.body,
        replayed: true,
      })
    await expect(call(session, 'noop', 'id-0', { text: 'other' })).rejects.toMatchObject({
      code: 'call_conflict',
    })
  })

  test('[CALL7] between the pending row and the effect: unknown, or the same operation again', async () => {
    const { stub, session } = await newSession()
    // The row as an instance leaves it that dies right after its commit.
    const leave = (tool: string) =>
      runInDurableObject(stub, (_, { storage }) =>
        storage.sql
          .exec(
            `insert into calls (tool, tool_call_id, operation_id, args, args_hash, state, runner, generation, attempts, started_at)
           select ?, 'left', 'op_left_' || ?, args, args_hash, 'pending', 'somebody else', 1, 1, 1 from calls where tool_call_id = 'sample'`,
            tool,
            tool,
          )
          .toArray(),
      )
    await call(session, 'refuse', 'sample')
    await leave('boom')
    await leave('noop')
    await evictDurableObject(stub)
    expect(JSON.parse((await call(session, 'boom', 'left')).body)).toMatchObject({ success: false })
    expect((await call(session, 'noop', 'left')).replayed).toBe(false)
    const { items } = await session.calls.list(caller, { limit: 10, after: null })
    expect(
      items.map((item) => [item.tool, item.state, item.attempts, item.operationId]).slice(1),
    ).toEqual([
      ['boom', 'unknown', 1, 'op_left_boom'],
      ['noop', 'settled', 2, 'op_left_noop'],
    ])
  })

  test('[CALL11] an object that is aborted in mid-call and then closed: the call is unknown', async () => {
    const { id, session } = await newSession()
    const lost = call(session, 'slow', 'x', { ms: 60_000 })
    lost.catch(() => undefined)
    await until(async () => (await session.self.view(caller)).activeCalls === 1)
    await abortAllDurableObjects()
    await expect(lost).rejects.toThrow()
    const again = sessionApi(env, id)
    const { items } = await again.calls.list(caller, { limit: 10, after: null })
    expect(items[0]).toMatchObject({ state: 'pending', attempts: 1 })
    // A closed session runs nothing more: what was pending is unknown.
    await again.self.close(caller, 'x')
    expect(JSON.parse((await call(again, 'slow', 'x', { ms: 60_000 })).body).result).toContain(
      'Outcome unknown',
    )
  })
})

describe('the link', () => {
  const open = async (stub: Stub) => {
    const { webSocket } = await stub.fetch('https://session/link?generation=1', {
      headers: { upgrade: 'websocket' },
    })
    if (!webSocket) throw new Error('No socket')
    const messages: { t: string; [key: string]: unknown }[] = []
    webSocket.addEventListener('message', ({ data }) => messages.push(JSON.parse(String(data))))
    webSocket.accept()
    return { socket: webSocket, messages }
  }

  test('[LINK3] a hibernated link keeps its attachment: the next instance knows its generation and that it has greeted', async () => {
    const { stub, session } = await newSession()
    const { socket, messages } = await open(stub)
    socket.send(
      JSON.stringify({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true }),
    )
    await until(async () => messages.some(({ t }) => t === 'welcome'))
    await evictDurableObject(stub)
    expect((await session.self.view(caller)).sandbox.connected).toBe(true)
    const item = { seq: 1, at: 1, kind: 'agent.notice', data: { message: 'after' } }
    socket.send(JSON.stringify({ t: 'events', items: [item] }))
    await until(async () => messages.some(({ t, seq }) => t === 'ack' && seq === 1))
    const events = await session.log.events(caller, 0, 50)
    expect(events.filter(({ kind }) => kind === 'link.disconnected')).toEqual([])
    expect(events.at(-1)).toMatchObject({ kind: 'agent.notice', data: { message: 'after' } })
  })

  test('[LIFE21] a ping that wakes nobody is a sign of life, also for the next instance', async () => {
    const { stub } = await newSession()
    const heardAt = () =>
      runInDurableObject(stub, (_, state) => createSessionHost(state).agentHeardAt())
    expect(await heardAt()).toBeNull()
    const { webSocket } = await stub.fetch('https://session/link?generation=1', {
      headers: { upgrade: 'websocket' },
    })
    const answers: unknown[] = []
    webSocket?.addEventListener('message', ({ data }) => answers.push(data))
    webSocket?.accept()
    const connectedAt = (await heardAt()) ?? 0
    expect(Math.abs(Date.now() - connectedAt)).toBeLessThan(120_000)
    await scheduler.wait(50)
    webSocket?.send('ping')
    await until(async () => answers.includes('pong'))
    const pingedAt = (await heardAt()) ?? 0
    expect(pingedAt).toBeGreaterThan(connectedAt)
    await evictDurableObject(stub)
    expect(await heardAt()).toBe(pingedAt)
    webSocket?.close(1000)
    await until(async () => (await heardAt()) === null)
  })

  test('[EVT6] a watcher sees what happens after an eviction, and what it has missed it asks for', async () => {
    const { stub, session } = await newSession()
    const { lastEventSeq: first } = await session.self.view(caller)
    const { webSocket } = await stub.fetch('https://session/watch', {
      headers: { upgrade: 'websocket' },
    })
    const seen: number[] = []
    webSocket?.addEventListener('message', ({ data }) => {
      for (const { seq } of JSON.parse(String(data)) as { seq: number }[]) seen.push(seq)
    })
    webSocket?.accept()
    await call(session, 'noop', 'a')
    await evictDurableObject(stub)
    await call(session, 'noop', 'b')
    const { lastEventSeq } = await session.self.view(caller)
    await until(async () => seen.includes(lastEventSeq))
    const expected = Array.from({ length: lastEventSeq - first }, (_, index) => first + index + 1)
    expect(seen).toEqual(expected)
  })
})

describe('the alarm', () => {
  test('[OUT1] run twice it does its work once', async () => {
    const { stub, session } = await newSession()
    await call(session, 'noop', 'x')
    await runInDurableObject(stub, async (_, state) => {
      const sql = durableSqlite(state.storage)
      setDeadline(sql, 'outbox', Date.now() - 1)
      await state.storage.setAlarm(Date.now() + 60_000)
    })
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    await runInDurableObject(stub, (instance: SessionObject) => instance.alarm())
    await until(async () => (await session.self.view(caller)).outbox.pending === 0)
  })

  test('[OUT6] twelve flushes fail in a row, a thirteenth does not', async () => {
    const { stub, session } = await newSession()
    await until(async () => (await session.self.view(caller)).outbox.pending === 0)
    await fetch(`${env['LIBSQL_URL']}/test/away`, { method: 'POST' })
    await call(session, 'noop', 'x')
    const alarm = () =>
      runInDurableObject(stub, async (instance: SessionObject, state) => {
        setDeadline(durableSqlite(state.storage), 'outbox', Date.now() - 1)
        // Never throws: the platform would give up after a few times.
        await instance.alarm()
      })
    for (let flush = 0; flush < 12; flush++) {
      await alarm()
      // No longer at work on it: this flush has failed and the next one is promised.
      await until(async () => {
        const [row] = await rows(stub, `select runner from deadlines where name = 'outbox'`)
        return row?.['runner'] === null
      })
    }
    expect((await session.self.view(caller)).outbox.pending).toBeGreaterThan(0)
    expect(await runInDurableObject(stub, (_, state) => state.storage.getAlarm())).not.toBeNull()
    await fetch(`${env['LIBSQL_URL']}/test/back`, { method: 'POST' })
    await alarm()
    await until(async () => (await session.self.view(caller)).outbox.pending === 0)
  })
})

describe('[REL4] a database that a newer release has changed for good', () => {
  test('is refused with what to do on every door, unchanged, and its alarm waits for that release', async () => {
    const { id, stub, session } = await newSession()
    const newer = 'update _ladder set applied = 1000, needs = 1000'
    // Its first rows are sent: nothing else changes its deadlines.
    const unsent = `select 1 from deadlines where name = 'outbox'`
    await until(async () => (await rows(stub, unsent)).length === 0)
    await rows(stub, newer)
    const before = await rows(stub, 'select * from deadlines')
    await evictDurableObject(stub)
    const doorsOfOld = [
      () => session.self.view(caller),
      () => session.turns.prompt(caller, { text: 'x', steer: false }, null),
      () => call(session, 'noop', 'x'),
      () => session.self.erase(caller),
    ]
    for (const door of doorsOfOld)
      await expect(door()).rejects.toMatchObject({
        code: 'newer_release',
        message: expect.stringContaining('Deploy the newer release again'),
      })
    await runInDurableObject(stub, async (instance: SessionObject, state) => {
      await state.storage.deleteAlarm()
      await instance.alarm()
      expect(await state.storage.getAlarm()).toBeGreaterThan(Date.now() + 30_000)
    })
    expect(await rows(stub, 'select * from deadlines')).toEqual(before)
    // The newer release is back.
    await rows(stub, 'update _ladder set needs = 0')
    await abortAllDurableObjects()
    expect((await sessionApi(env, id).self.view(caller)).status).toBe('open')
  })
})

describe('[OPS14] an object of a deployment that has lost its variables', () => {
  test('refuses with their names, and its alarm waits for them', async () => {
    const { stub } = await newSession()
    await runInDurableObject(stub, async (_, state) => {
      const bare = { SESSION: env.SESSION, LIBSQL_URL: 'http://libsql.test' } as unknown as Env
      const opened = new Opened(state, () => {
        bindParts(bare)
        return { runDue: async () => {} }
      })
      expect(opened.refusal).toMatchObject({ code: 'not_configured' })
      expect(String(opened.refusal)).toContain('GANTRY_ID_SECRET')
      expect(() => opened.actor).toThrow('not configured')
      await state.storage.deleteAlarm()
      await opened.alarm()
      expect(await state.storage.getAlarm()).toBeGreaterThan(Date.now() + 30_000)
    })
  })
})
