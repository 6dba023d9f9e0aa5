import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Stack } from '../../local/stack/stack.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import type { Artifact } from '../../src/contract/artifact.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { SessionDiff, SessionRow } from '../../src/contract/session.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import { hosts, request } from '../support/stack.ts'
import { readStream } from '../support/sse.ts'
import { isLong, someOf } from '../support/long.ts'
import { bash, Box, startRealStack, until, useBox, useRealStack, verify, write } from './support.ts'

const finalKinds = new Set(['message.text', 'tool.completed', 'tool.failed', 'step.finished'])

/** Numbered from 1 without a gap, each final part once. */
function expectWhole(events: SessionEvent[]): void {
  expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1))
  const parts = events
    .filter((event) => finalKinds.has(event.kind))
    .map((event) => event.data['partId'])
  expect(new Set(parts).size).toBe(parts.length)
}

/** One with each commit: whatever is below OpenCode has both in every run. */
describe.each(someOf(hosts))('the spine on %s', (host) => {
  // Its own: it is stopped and started.
  const stack = useRealStack(host, () => ({}))
  const only = useBox(stack, () => ({ title: 'spine' }))

  test('[HOST6] [SES10] [CALL14] [EVT1] [EVT2] [EVT4] OpenCode writes a file and verifies it: file, artifact, one row, whole log', async () => {
    const box = only()
    const eventsUrl = `${stack().url}/v1/sessions/${box.id}/events`
    const hasEnd = (events: SessionEvent[]) => events.some(({ kind }) => kind === 'turn.ended')
    const live = readStream(eventsUrl, stack().adminKey, hasEnd)
    const proof = `evidence ${'ü€😀 '.repeat(3000)}\n`
    const turn = await box.run([
      { text: 'I write it.', ...write('HELLO.md', '# Hello\n') },
      write('.proliferate/.verification/proof.txt', proof),
      verify(),
      { text: 'It is written and verified.' },
    ])
    expect(turn).toMatchObject({ state: 'completed', text: 'It is written and verified.' })

    const diff = (await box.get('/diff')).json as SessionDiff
    expect(diff.live).toBe(true)
    expect(diff.files).toContainEqual({
      path: 'HELLO.md',
      status: 'added',
      additions: 1,
      deletions: 0,
    })
    expect(readFileSync(box.folder('workspace/HELLO.md'), 'utf8')).toBe('# Hello\n')

    const { items: artifacts } = (await box.get('/artifacts')).json as { items: Artifact[] }
    expect(artifacts).toMatchObject([{ path: 'proof.txt', size: Buffer.byteLength(proof) }])
    const artifact = artifacts[0] as Artifact
    const download = await box.get(`/artifacts/${artifact.id}`)
    expect(download.text).toBe(proof)
    expect(download.headers.get('content-disposition')).toContain('attachment')
    expect(artifact.sha256).toBe(createHash('sha256').update(proof).digest('hex'))

    const { items: calls } = (await box.get('/calls')).json as { items: ToolCall[] }
    expect(calls).toMatchObject([{ tool: 'verify', state: 'settled', attempts: 1 }])
    expect(calls[0]?.response).toMatchObject({ success: true, data: { uploadedCount: 1 } })
    const db = createLibsql({
      url: stack().sqld.url,
      token: stack().sqld.token,
      requestTimeoutMs: 60_000,
    })
    const rows = await until('the row is settled in libSQL', 15_000, async () => {
      const found = await db.all<{ tool_name: string; status: string; attempts: number }>(
        'select tool_name, status, attempts from session_tool_invocations where session_id = ?',
        box.id,
      )
      return found[0]?.status === 'settled' && found
    })
    expect(rows).toMatchObject([{ tool_name: 'verify', attempts: 1 }])

    // The last word of a turn: what it has changed is collected after its end.
    await until('the changes are collected', 30_000, async () => {
      const collected = await box.eventsOf('changes.collected')
      return collected.length > 0
    })
    const events = await box.events()
    expectWhole(events)
    const turnEvents = events.slice(events.findIndex(({ kind }) => kind === 'turn.queued'))
    const seqs = (kind: string, tool?: string) =>
      turnEvents
        .filter((event) => event.kind === kind && (!tool || event.data['tool'] === tool))
        .map(({ seq }) => seq)
    // Agent and session each keep their own order; these are the ties between them.
    const stories: [kind: string, tool?: string][][] = [
      [['turn.queued'], ['turn.started'], ['tool.started', 'verify'], ['turn.ended']],
      [['turn.started'], ['gate.decided', 'verify'], ['call.started'], ['artifact.stored']],
      [['artifact.stored'], ['call.ended'], ['tool.completed', 'verify'], ['turn.ended']],
    ]
    for (const story of stories) {
      const order = story.map((step) => seqs(...step))
      expect([story, order.map(({ length }) => length)]).toEqual([story, story.map(() => 1)])
      expect(order.flat()).toEqual(order.flat().toSorted((x, y) => x - y))
    }
    for (const kind of ['tool.started', 'gate.decided', 'tool.completed'])
      expect(seqs(kind, 'write')).toHaveLength(2)
    for (const n of [0, 1]) {
      const completed = seqs('tool.completed', 'write')[n]
      expect(completed).toBeGreaterThan(seqs('tool.started', 'write')[n] as number)
      expect(completed).toBeGreaterThan(seqs('gate.decided', 'write')[n] as number)
    }
    expect(seqs('message.text')).toHaveLength(2)
    expect(seqs('step.finished')).toHaveLength(4)

    // The stream and pages of any size are the same log.
    const streamed = await live
    expect(hasEnd(streamed)).toBe(true)
    expect(streamed).toEqual(events.slice(0, streamed.length))
    expect(await box.events(7)).toEqual(events)
    for (const after of [1, Math.floor(events.length / 2), events.length - 1]) {
      const rest = await readStream(
        eventsUrl,
        stack().adminKey,
        (read) => read.at(-1)?.seq === events.length,
        { 'last-event-id': String(after) },
      )
      expect(rest).toEqual(events.slice(after))
    }
  })

  test('[GATE5] [LINK3] a question outlives the control plane: killed and started again, its answer still counts', async () => {
    const box = only()
    const turn = await box.prompt([bash('rm -rf build; echo ran >> ran.txt'), { text: 'Ran.' }])
    const ask = await box.parked()
    stack().worker.kill('SIGKILL')
    await stack().worker.start()
    expect(existsSync(box.folder('workspace/ran.txt'))).toBe(false)
    expect(await box.parked()).toEqual({ ...ask, secondsLeft: expect.any(Number) })
    expect((await box.answer(ask, 'allow')).status).toBe(200)
    expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'Ran.' })
    expect(readFileSync(box.folder('workspace/ran.txt'), 'utf8')).toBe('ran\n')
    expect((await box.answer(ask, 'deny')).status).toBe(409)
    expectWhole(await box.events())
  })

  test('[HOST1] a second start on the same state keeps key, sessions, events and artifacts, and works', async () => {
    const list = async ({ url, adminKey }: Stack) =>
      ((await request('GET', `${url}/v1/sessions`, adminKey)).json as { items: SessionRow[] }).items
    await only().post('/close')
    const before = await until('libSQL has the sessions as closed', 15_000, async () => {
      const rows = await list(stack())
      return rows.length > 0 && rows.every((row) => row.sandboxState === 'stopped') && rows
    })
    const id = before.find(({ title }) => title === 'spine')?.id as string
    const events = await new Box(stack(), id).events()
    await stack().stop()

    const second = await startRealStack(host, { stateDir: stack().stateDir })
    onTestFinished(() => second.stop())
    expect(second.adminKey).toBe(stack().adminKey)
    expect(await list(second)).toEqual(before)
    const again = new Box(second, id)
    expect(await again.events()).toEqual(events)
    const { items } = (await again.get('/artifacts')).json as { items: Artifact[] }
    expect((await again.get(`/artifacts/${items[0]?.id}`)).text).toContain('evidence')
    // Another boot: on one host in `npm test`.
    if (host === 'deno' && !isLong) return
    const box = await Box.open(second)
    expect(await box.bash('echo works')).toBe('works\n')
  })
})
