import {
  abortAllDurableObjects,
  evictDurableObject,
  runDurableObjectAlarm,
  runInDurableObject,
} from 'cloudflare:test'
import { env as bindings } from 'cloudflare:workers'
import { describe, expect, test } from 'vitest'
import type { Env } from '../../durable-objects/env.ts'
import type { SessionObject } from '../../durable-objects/session.ts'
import { createSessionHost } from '../../durable-objects/session-host.ts'
import { durableSql } from '../../durable-objects/sqlite.ts'
import { createSessionIds } from '../../src/adapters/web-crypto.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import { setDeadline } from '../../src/core/deadlines.ts'
import type { SessionApi } from '../../src/core/sessions/api.ts'

const env = bindings as unknown as Env & Record<string, string>
const organisationId = `org_${'1'.repeat(20)}`
const caller = { organisationId, keyId: `key_${'1'.repeat(20)}`, owner: 'tester' }
const sandbox = { organisationId, generation: 1 }

type Stub = DurableObjectStub<SessionObject>

/** The stub's own type adds disposal to every result, and its promises are more than promises: here they are plain. */
function doorsOf(stub: Stub): SessionApi {
  return new Proxy({} as SessionApi, {
    get:
      (_, name: keyof SessionApi) =>
      async (...args: unknown[]) =>
        await (stub[name] as unknown as (...args: unknown[]) => Promise<unknown>)(...args),
  })
}

async function newStub(): Promise<{ id: string; stub: Stub; doors: SessionApi }> {
  const secret = Uint8Array.from(atob(env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
    letter.charCodeAt(0),
  )
  const id = await createSessionIds(secret).mint()
  const stub: Stub = env.SESSION.getByName(id)
  return { id, stub, doors: doorsOf(stub) }
}
async function newSession(): Promise<{ id: string; stub: Stub; doors: SessionApi }> {
  const made = await newStub()
  await made.doors.create({
    sessionId: made.id,
    ...caller,
    input: SessionCreate.parse({ sandbox: 'none' }),
  })
  return made
}
const call = (
  doors: SessionApi,
  tool: string,
  toolCallId: string,
  args: Record<string, unknown> = {},
) => doors.callTool(sandbox, { tool, toolCallId, args })
const rows = (stub: Stub, query: string) =>
  runInDurableObject(stub, (_, state) => state.storage.sql.exec(query).toArray())

async function until<T>(look: () => Promise<T>): Promise<T> {
  for (let tries = 0; tries < 500; tries++) {
    const value = await look()
    if (value) return value
    await scheduler.wait(20)
  }
  throw new Error(`Never: ${String(look)}`)
}

describe('a session that was never created', () => {
  test('[SES3] answers not_found on every door and has no tables', async () => {
    const { stub, doors } = await newStub()
    const every = [
      () => doors.view(caller),
      () => doors.close(caller, 'x'),
      () => doors.erase(caller),
      () => doors.prompt(caller, { text: 'x', steer: false }, null),
      () => doors.events(caller, 0, 10),
      () => doors.callTool(sandbox, { tool: 'noop', toolCallId: 'x', args: {} }),
      () => doors.authoriseSandbox(sandbox),
      () => doors.manifest(sandbox),
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
    const { doors } = await newSession()
    await expect(call(doors, 'nope', 'x')).rejects.toMatchObject({
      code: 'unknown_tool',
      message: 'Unknown tool: nope',
    })
    await expect(doors.authoriseSandbox({ ...sandbox, generation: 2 })).rejects.toMatchObject({
      code: 'old_generation',
    })
    const large = call(doors, 'noop', 'x', { text: 'x'.repeat(300_000) })
    await expect(large).rejects.toMatchObject({ code: 'too_large', details: [{ path: 'args' }] })
    await expect(call(doors, 'unavailable', 'x', { times: 1 })).rejects.toMatchObject({
      code: 'storage_unavailable',
    })
  })
})

describe('eviction', () => {
  test('[CALL4] a settled call is replayed byte for byte by the next instance', async () => {
    const { stub, doors } = await newSession()
    const first = await call(doors, 'noop', 'x', { text: '\u{1f600}' })
    await evictDurableObject(stub)
    expect(await call(doors, 'noop', 'x', { text: '\u{1f600}' })).toEqual({
      body: first.body,
      replayed: true,
    })
  })

  test('[CALL4] replays are found whether they come after many new ids or after each other', async () => {
    const { doors } = await newSession()
    const ids = Array.from({ length: 40 }, (_, n) => `id-${n}`)
    const firsts = []
    for (const id of ids) firsts.push(await call(doors, 'noop', id, { text: id }))
    expect(firsts.filter(({ replayed }) => replayed)).toEqual([])
    for (const [n, id] of ids.entries())
      expect(await call(doors, 'noop', id, { text: id })).toEqual({
        body: firsts[n]?.body,
        replayed: true,
      })
    await expect(call(doors, 'noop', 'id-0', { text: 'other' })).rejects.toMatchObject({
      code: 'call_conflict',
    })
  })

  test('[CALL7] between the pending row and the effect: unknown, or the same operation again', async () => {
    const { stub, doors } = await newSession()
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
    await call(doors, 'refuse', 'sample')
    await leave('boom')
    await leave('noop')
    await evictDurableObject(stub)
    expect(JSON.parse((await call(doors, 'boom', 'left')).body)).toMatchObject({ success: false })
    expect((await call(doors, 'noop', 'left')).replayed).toBe(false)
    const { items } = await doors.calls(caller, { limit: 10, after: null })
    expect(
      items.map((item) => [item.tool, item.state, item.attempts, item.operationId]).slice(1),
    ).toEqual([
      ['boom', 'unknown', 1, 'op_left_boom'],
      ['noop', 'settled', 2, 'op_left_noop'],
    ])
  })

  test('[CALL11] an object that is aborted in mid-call and then closed: the call is unknown', async () => {
    const { id, doors } = await newSession()
    const lost = call(doors, 'slow', 'x', { ms: 60_000 })
    lost.catch(() => undefined)
    await until(async () => (await doors.view(caller)).activeCalls === 1)
    await abortAllDurableObjects()
    await expect(lost).rejects.toThrow()
    const again = doorsOf(env.SESSION.getByName(id))
    const { items } = await again.calls(caller, { limit: 10, after: null })
    expect(items[0]).toMatchObject({ state: 'pending', attempts: 1 })
    // A closed session runs nothing more: what was pending is unknown.
    await again.close(caller, 'x')
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
    const { stub, doors } = await newSession()
    const { socket, messages } = await open(stub)
    socket.send(
      JSON.stringify({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true }),
    )
    await until(async () => messages.some(({ t }) => t === 'welcome'))
    await evictDurableObject(stub)
    expect((await doors.view(caller)).sandbox.connected).toBe(true)
    const item = { seq: 1, at: 1, kind: 'agent.notice', data: { message: 'after' } }
    socket.send(JSON.stringify({ t: 'events', items: [item] }))
    await until(async () => messages.some(({ t, seq }) => t === 'ack' && seq === 1))
    const events = await doors.events(caller, 0, 50)
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
    expect(Math.abs(Date.now() - connectedAt)).toBeLessThan(10_000)
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
    const { stub, doors } = await newSession()
    const { lastEventSeq: first } = await doors.view(caller)
    const { webSocket } = await stub.fetch('https://session/watch', {
      headers: { upgrade: 'websocket' },
    })
    const seen: number[] = []
    webSocket?.addEventListener('message', ({ data }) => {
      for (const { seq } of JSON.parse(String(data)) as { seq: number }[]) seen.push(seq)
    })
    webSocket?.accept()
    await call(doors, 'noop', 'a')
    await evictDurableObject(stub)
    await call(doors, 'noop', 'b')
    const { lastEventSeq } = await doors.view(caller)
    await until(async () => seen.includes(lastEventSeq))
    const expected = Array.from({ length: lastEventSeq - first }, (_, index) => first + index + 1)
    expect(seen).toEqual(expected)
  })
})

describe('the alarm', () => {
  test('[OUT1] run twice it does its work once', async () => {
    const { stub, doors } = await newSession()
    await call(doors, 'noop', 'x')
    await runInDurableObject(stub, async (_, state) => {
      const sql = durableSql(state.storage)
      setDeadline(sql, 'outbox', Date.now() - 1)
      await state.storage.setAlarm(Date.now() + 60_000)
    })
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    await runInDurableObject(stub, (instance: SessionObject) => instance.alarm())
    await until(async () => (await doors.view(caller)).outbox.pending === 0)
  })

  test('[OUT6] twelve flushes fail in a row, a thirteenth does not', async () => {
    const { stub, doors } = await newSession()
    await until(async () => (await doors.view(caller)).outbox.pending === 0)
    await fetch(`${env['LIBSQL_URL']}/test/away`, { method: 'POST' })
    await call(doors, 'noop', 'x')
    const alarm = () =>
      runInDurableObject(stub, async (instance: SessionObject, state) => {
        setDeadline(durableSql(state.storage), 'outbox', Date.now() - 1)
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
    expect((await doors.view(caller)).outbox.pending).toBeGreaterThan(0)
    expect(await runInDurableObject(stub, (_, state) => state.storage.getAlarm())).not.toBeNull()
    await fetch(`${env['LIBSQL_URL']}/test/back`, { method: 'POST' })
    await alarm()
    await until(async () => (await doors.view(caller)).outbox.pending === 0)
  })
})
