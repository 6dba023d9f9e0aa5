import { randomUUID } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProcesses, sleep, stackMark } from '../local/processes/processes.ts'
import { script } from '../local/model/scripted-model.ts'
import { startStack, type Stack } from '../local/stack/stack.ts'
import type { SessionEvent } from '../src/contract/events.ts'
import type { Session } from '../src/contract/session.ts'
import { type Turn, turnEnds } from '../src/contract/turn.ts'
import { api, ask } from './api.ts'
import { printColumns } from './table.ts'

const patienceMs = 120_000

/** Milliseconds since the first of them was asked for; of each session one. */
export interface Fleet {
  created: number[]
  ready: number[]
  done: number[]
  /** From the order to close until its sandbox is gone. */
  closed: number[]
  totalMs: number
  turns: Turn[]
  sessions: Session[]
  /** Why a sandbox was replaced by another one. */
  replaced: string[]
}

/** All are there at the same time: the first is closed when the last has answered. */
export async function runFleet(stack: Stack, count: number): Promise<Fleet> {
  const startedAt = Date.now()
  const since = () => Date.now() - startedAt
  const created: number[] = []
  const begun = await Promise.all(
    Array.from({ length: count }, async () => {
      const { id } = (await posted(stack, '/v1/sessions', {})) as Session
      created.push(since())
      const text = `Do what the script says.\n${script([{ text: 'Done.' }])}`
      const turn = (await posted(stack, `/v1/sessions/${id}/prompts`, { text })) as Turn
      return { id, turn }
    }),
  )
  const turns = await Promise.all(begun.map(({ turn }) => turnEnded(stack, turn.id)))
  const moments = await Promise.all(begun.map(({ id }) => momentsOf(stack, id)))
  const closing = Date.now()
  const closed: number[] = []
  const sessions = await Promise.all(
    begun.map(async ({ id }) => {
      await api(stack, 'POST', `/v1/sessions/${id}/close`, {})
      const session = await stopped(stack, id)
      closed.push(Date.now() - closing)
      return session
    }),
  )
  const at = (pick: 'ready' | 'done') => moments.map((moment) => moment[pick] - startedAt)
  return {
    created,
    ready: at('ready'),
    done: at('done'),
    closed,
    totalMs: since(),
    turns,
    sessions,
    replaced: moments.flatMap(({ replaced }) => replaced),
  }
}

/** As every client should: what may be tried again is asked again, with the same key. */
async function posted(stack: Stack, path: string, body: object): Promise<unknown> {
  const headers = { 'idempotency-key': randomUUID() }
  for (const end = Date.now() + patienceMs; ; await sleep(500)) {
    const { status, answer } = await ask(stack, 'POST', path, body, headers)
    if (status < 400) return answer
    if (status !== 503 || Date.now() > end)
      throw new Error(`POST ${path} answered ${status}: ${JSON.stringify(answer)}`)
  }
}

async function turnEnded(stack: Stack, id: string): Promise<Turn> {
  for (;;) {
    const turn = (await api(stack, 'GET', `/v1/turns/${id}?wait=30`)) as Turn
    if (turnEnds.some((end) => end === turn.state)) return turn
  }
}

/** From the session's own log, so that nobody has to look all the time. */
async function momentsOf(
  stack: Stack,
  id: string,
): Promise<{ ready: number; done: number; replaced: string[] }> {
  const path = `/v1/sessions/${id}/events?limit=500`
  const { items } = (await api(stack, 'GET', path)) as { items: SessionEvent[] }
  const find = (kind: string, state: string) =>
    items.find((event) => event.kind === kind && event.data['state'] === state)?.at ?? Number.NaN
  const replaced = items.filter(({ kind }) => kind === 'sandbox.replaced')
  return {
    ready: find('sandbox.changed', 'ready'),
    done: find('turn.ended', 'completed'),
    replaced: replaced.map(({ data }) => String(data['reason'])),
  }
}

async function stopped(stack: Stack, id: string): Promise<Session> {
  for (;;) {
    const session = (await api(stack, 'GET', `/v1/sessions/${id}`)) as Session
    if (session.sandbox.state === 'stopped') return session
    await sleep(250)
  }
}

/** What there is of a stack and its sandboxes: processes, folders, and what their users left elsewhere. */
export function thingsOf(stack: Stack): { processes: number[]; folders: string[] } {
  const place = stack.sandboxSite
  const [first, last] = place?.uids ?? [0, -1]
  const uids = Array.from({ length: last - first + 1 }, (_, n) => first + n)
  const temporary = readdirSync(tmpdir()).filter((name) => uids.includes(ownerOf(name)))
  return {
    processes: findProcesses({ marks: [`${stackMark}=${stack.mark}`], uids }).sort((a, b) => a - b),
    folders: [...(place === null ? [] : readdirSync(place.root)), ...temporary],
  }
}

const ownerOf = (name: string) =>
  statSync(join(tmpdir(), name), { throwIfNoEntry: false })?.uid ?? -1

export async function measureFleet(stateDir: string, count: number): Promise<void> {
  const stack = await startStack({
    stateDir,
    host: 'workerd',
    env: { RATE_LIMIT_PER_MINUTE: '1000000' },
  })
  try {
    const before = thingsOf(stack)
    const fleet = await runFleet(stack, count)
    const after = thingsOf(stack)
    const failed = fleet.turns.filter(({ state }) => state !== 'completed').length
    printColumns([
      [`${count} sessions at once, s`, 'p50', 'p95', 'last'],
      ...(['created', 'ready', 'done', 'closed'] as const).map((name) => [
        { created: 'created', ready: 'ready', done: 'turn done', closed: 'closed, from the order' }[
          name
        ],
        ...[0.5, 0.95, 1].map((share) => (shareOf(fleet[name], share) / 1000).toFixed(1)),
      ]),
      ['total', '', '', (fleet.totalMs / 1000).toFixed(1)],
    ])
    const left = {
      processes: after.processes.length - before.processes.length,
      folders: after.folders.length - before.folders.length,
    }
    console.log(
      `turns not completed: ${failed}; left: ${left.processes} processes, ${left.folders} folders`,
    )
  } finally {
    await stack.erase()
  }
}

function shareOf(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
