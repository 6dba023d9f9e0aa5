import { expect } from 'vitest'
import type { Approval } from '../../src/contract/approval.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Stack } from '../../local/stack/stack.ts'
import {
  type Aim,
  type Crashes,
  drive,
  type Driven,
  type Effects,
  loadOperation,
  operateAs,
  type People,
  work,
} from './agent-crashes-kit.ts'
import { callsOf, dbOf, outboxEmpty } from './contract-kit.ts'
import { expectGone, readyAs } from './recovery-kit.ts'
import { Box, until } from './support.ts'

// What must hold after the agent was killed at one of its crash points.

export interface Scene {
  stack: Stack
  crashes: Crashes
  effects: Effects
  people: People
}
export interface Struck extends Driven {
  box: Box
}

/** Where, and how far the work has come then: the call, the operation with what it did on disk, what bash did there. */
export interface Case extends Aim {
  ends: string
}
const first = (ends: string, ...points: Aim['point'][]): Case[] =>
  points.map((point) => ({ point, hit: 1, ends }))

/** The prompt waits already, and is for the next sandbox. */
export const booting = first(
  'done succeeded:1 1',
  'boot.read',
  'manifest.fetched',
  'manifest.applied',
  'opencode.spawned',
  'ready.before',
  'spool.before-append',
  'spool.after-append',
  'ack.before',
)
/** Commands are the prompt, then what verify collects, then the operation. */
export const working: Case[] = [
  ...first('none none:0 0', 'command.received', 'command.executed', 'command.recorded'),
  ...first('none none:0 0', 'prompt.before-send', 'prompt.after-send'),
  ...first('none none:0 0', 'ask.received', 'answer.received', 'upstream.before-try'),
  { point: 'spool.before-append', hit: 5, ends: 'none none:0 0' },
  { point: 'spool.after-append', hit: 6, ends: 'none none:0 0' },
  { point: 'ack.before', hit: 4, ends: 'none none:0 0' },
  { point: 'command.received', hit: 2, ends: 'failed none:0 0' },
  { point: 'command.recorded', hit: 2, ends: 'failed none:0 0' },
  ...first('done none:0 0', 'upstream.answered'),
  ...first('done suspect:0 0', 'execute.begun'),
  ...first('done suspect:1 0', 'execute.done'),
  { point: 'command.recorded', hit: 3, ends: 'done suspect:1 0' },
  ...first('done succeeded:1 1', 'turn.before-end', 'turn.after-end', 'evidence.collected'),
]
/** By then the turn's end may be stored, or is for sure. */
export const endings: Partial<Record<Aim['point'], string[]>> = {
  'turn.after-end': ['interrupted', 'completed'],
  'evidence.collected': ['completed'],
}

/** A session whose first agent dies there, at the end of its turn. */
export async function struck(
  { stack, crashes, effects, people }: Scene,
  aim: Aim,
): Promise<Struck> {
  const box = await Box.create(stack, { project: 'crashes' })
  effects.open(box)
  crashes.aim(box, aim)
  const { id } = await box.prompt(work(box, effects))
  const driven = await drive(box, id, operateAs(stack, people))
  await until(`${aim.point} is hit`, 15_000, () => crashes.killed(box))
  await readyAs(box, 2)
  await expectGone(box, 1)
  return { box, ...driven }
}

const rows = ({ stack }: Scene, { id }: Box, table: string) =>
  dbOf(stack).all<Record<string, unknown>>(`select * from ${table} where session_id = ?`, id)

/** One row and one artifact of the call; or it says that it has not happened, or that nobody knows. */
async function expectCallOnce(scene: Scene, box: Box): Promise<string> {
  const [call, ...others] = await callsOf(box)
  expect(others).toEqual([])
  const stored = await rows(scene, box, 'session_tool_invocations')
  expect(stored.map((row) => [row['tool_call_id'], row['status']])).toEqual(
    call ? [[call.toolCallId, call.state]] : [],
  )
  const artifacts = await rows(scene, box, 'artifacts')
  if (call?.response?.success) {
    expect(call).toMatchObject({ state: 'settled', response: { data: { uploadedCount: 1 } } })
    expect(artifacts).toMatchObject([{ path: 'proof.txt', operation_id: call.operationId }])
    return 'done'
  }
  expect(artifacts).toEqual([])
  if (call === undefined) return 'none'
  expect(call.response?.result ?? call.error).toMatch(/SIGKILL|unknown/)
  expect(['settled', 'unknown']).toContain(call.state)
  return call.state === 'settled' ? 'failed' : 'unknown'
}

/** Done and told, or nobody can say and a person is asked. */
async function expectOperationOnce(scene: Scene, { box, operation }: Struck): Promise<string> {
  const done = scene.effects.count(box, 'operation')
  const stored = await rows(scene, box, 'operation_attempts')
  expect(stored).toHaveLength(operation === null ? 0 : 1)
  if (operation === null) return `none:${done}`
  const { attempts } = await loadOperation(scene.stack, operation.id)
  expect(attempts).toMatchObject([{ id: stored[0]?.['id'], status: stored[0]?.['status'] }])
  const [attempt] = attempts
  if (attempt?.suspectSince == null) return `${attempt?.status}:${done}`
  expect(attempt).toMatchObject({ status: 'reserved', reason: expect.stringContaining('SIGKILL') })
  return `suspect:${done}`
}

/** Numbered without a gap; nothing that happens once is told twice. */
function expectLogOnce(log: SessionEvent[]): void {
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, at) => at + 1))
  const ends = ['message.text', 'tool.started', 'tool.completed', 'tool.failed', 'step.finished']
  const once = log.flatMap(({ kind, data }) => {
    if (ends.includes(kind)) return `${kind} ${String(data['partId'])}`
    if (kind.startsWith('turn.')) return `${kind} ${String(data['turnId'])}`
    if (kind.startsWith('call.')) return `${kind} ${String(data['toolCallId'])}`
    return []
  })
  expect(once).toEqual([...new Set(once)])
}

/** What is left is what the point says, and all of it is told once. */
export async function expectOnce(
  scene: Scene,
  struckOne: Struck,
  { point, ends }: Case,
): Promise<void> {
  const { crashes, effects } = scene
  const { box } = struckOne
  await outboxEmpty(box)
  const { id, state } = struckOne.turn
  const left = [
    await expectCallOnce(scene, box),
    await expectOperationOnce(scene, struckOne),
    effects.count(box, 'bash'),
  ].join(' ')
  crashes.ends.set(point, [...(crashes.ends.get(point) ?? []), `${state} ${left}`])
  expect(left).toBe(ends)
  expectLogOnce(await box.events())
  expect(await rows(scene, box, 'turns')).toMatchObject([{ id, state }])
  expect(await box.eventsOf('sandbox.replaced')).toMatchObject([{ from: 1, to: 2 }])
  const { items } = (await box.get('/approvals')).json as { items: Approval[] }
  expect(items.filter((approval) => approval.state === 'pending')).toEqual([])
}
