import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { crashPoints } from '../../sandbox-agent/crash-points.ts'
import type { Approval } from '../../src/contract/approval.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import {
  type Aim,
  type Crashes,
  drive,
  type Driven,
  Effects,
  loadOperation,
  operateAs,
  type People,
  prepareProject,
  printCrashes,
  startCrashes,
  work,
} from './agent-crashes-kit.ts'
import { callsOf, dbOf, outboxEmpty } from './contract-kit.ts'
import { expectGone, nextPrompt, readyAs } from './recovery-kit.ts'
import { Box, until, useRealStack } from './support.ts'

let crashes: Crashes
let people: People
const effects = new Effects()
const stack = useRealStack('workerd', async () => {
  crashes = await startCrashes()
  return { hostOptions: { node: crashes.node } }
})
beforeAll(async () => void (people = await prepareProject(stack(), effects)))
afterAll(() => {
  crashes.close()
  for (const folder of [effects.folder, dirname(crashes.node)])
    rmSync(folder, { recursive: true, force: true })
  process.stdout.write(`\n${printCrashes(crashes)}\n`)
})

/** Where, and how far the work has come then: the call, the operation with what it did on disk, what bash did there. */
interface Case extends Aim {
  ends: string
}
const first = (ends: string, ...points: Aim['point'][]): Case[] =>
  points.map((point) => ({ point, hit: 1, ends }))

/** The prompt waits already, and is for the next sandbox. */
const booting = first(
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
const working: Case[] = [
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
  ...first('done succeeded:1 1', 'turn.before-end', 'turn.after-end'),
]

/** A session whose first agent dies there, at the end of its turn. */
async function struck(aim: Aim): Promise<Driven & { box: Box }> {
  const box = await Box.create(stack(), { project: 'crashes' })
  effects.open(box)
  crashes.aim(box, aim)
  const { id } = await box.prompt(work(box, effects))
  const driven = await drive(box, id, operateAs(stack(), people))
  await until(`${aim.point} is hit`, 15_000, () => crashes.killed(box))
  await readyAs(box, 2)
  await expectGone(box, 1)
  return { box, ...driven }
}

const rows = (box: Box, table: string) =>
  dbOf(stack()).all<Record<string, unknown>>(`select * from ${table} where session_id = ?`, box.id)

/** One row and one artifact of the call; or it says that it has not happened, or that nobody knows. */
async function expectCallOnce(box: Box): Promise<string> {
  const [call, ...others] = await callsOf(box)
  expect(others).toEqual([])
  const stored = await rows(box, 'session_tool_invocations')
  expect(stored.map((row) => [row['tool_call_id'], row['status']])).toEqual(
    call ? [[call.toolCallId, call.state]] : [],
  )
  const artifacts = await rows(box, 'artifacts')
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
async function expectOperationOnce(box: Box, { operation }: Driven): Promise<string> {
  const done = effects.count(box, 'operation')
  const stored = await rows(box, 'operation_attempts')
  expect(stored).toHaveLength(operation === null ? 0 : 1)
  if (operation === null) return `none:${done}`
  const { attempts } = await loadOperation(stack(), operation.id)
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

async function expectOnce(box: Box, driven: Driven, { point, ends }: Case): Promise<void> {
  await outboxEmpty(box)
  const { id, state } = driven.turn
  const left = [
    await expectCallOnce(box),
    await expectOperationOnce(box, driven),
    effects.count(box, 'bash'),
  ].join(' ')
  crashes.ends.set(point, [...(crashes.ends.get(point) ?? []), `${state} ${left}`])
  expect(left).toBe(ends)
  expectLogOnce(await box.events())
  expect(await rows(box, 'turns')).toMatchObject([{ id, state }])
  expect(await box.eventsOf('sandbox.replaced')).toMatchObject([{ from: 1, to: 2 }])
  const { items } = (await box.get('/approvals')).json as { items: Approval[] }
  expect(items.filter((approval) => approval.state === 'pending')).toEqual([])
}

describe.concurrent('an agent', { timeout: 300_000 }, () => {
  test.for(booting)(
    '[BOX11] [LIFE2] [TURN2] killed while it boots, at hit $hit of $point: the next one does all the work, once',
    async (aim) => {
      const { box, ...driven } = await struck(aim)
      expect(driven.turn).toMatchObject({ state: 'completed', text: 'All done.' })
      await expectOnce(box, driven, aim)
      expect(await nextPrompt(stack(), box)).toBe('')
      await box.post('/close')
    },
  )

  test.for(working)(
    '[BOX11] [BOX4] [CALL7] [LINK2] [LIFE7] killed at hit $hit of $point: the next one is ready, effects are once or unknown, the model is told',
    async (aim) => {
      const { box, ...driven } = await struck(aim)
      const isAfter = aim.point === 'turn.after-end'
      expect(isAfter ? ['interrupted', 'completed'] : ['interrupted']).toContain(driven.turn.state)
      await expectOnce(box, driven, aim)
      const told = await nextPrompt(stack(), box)
      expect(told).toContain('the sandbox in which you worked has ended')
      expect(told.includes('The last turn was interrupted')).toBe(
        driven.turn.state === 'interrupted',
      )
      await box.post('/close')
    },
  )
})

test('[BOX11] every crash point of the agent was hit and has killed one', () => {
  const missed = crashPoints.filter((point) => !crashes.kills.has(point))
  expect(missed).toEqual([])
})
