import { beforeEach, describe, expect, test } from 'vitest'
import type { BudgetAnswer } from '../../../../src/core/organisation/record/api.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let slices: ((answer: BudgetAnswer) => void)[]
/** One run after the other, each with its turn: the first runs, the second waits. */
let first: { id: string; runId: string }
let second: { id: string; runId: string }

const slice = (toolCalls: number): BudgetAnswer => ({
  granted: { wallMs: 1e9, toolCalls, tokens: 1e9, moneyMicros: 1e9 },
  warnings: [],
})

beforeEach(async () => {
  world = new RunWorld()
  slices = []
  await world.begin()
  const turns: { id: string; runId: string }[] = []
  for (const intent of ['the first', 'the second']) {
    const { id: runId } = await world.createRun(intent)
    const { id } = await world.prompt(intent, { runId })
    turns.push({ id, runId })
  }
  ;[first, second] = turns as [typeof first, typeof second]
  // From here on the organisation gives nothing until the test says so.
  world.organisation.shared = {
    take: () => new Promise((resolve) => slices.push(resolve)),
    giveBack: async () => {},
  }
  world.sql.run(`update slice set granted = '{}'`)
})

const decisions = async (runId: string) =>
  (await world.entries(runId, 'permission-decision')).map(({ decision }) => decision)

/** A question that has come, and waits for the organisation. */
async function waiting(change: Record<string, unknown> = {}): Promise<string> {
  const asked = world.ask('read', { filePath: 'a.txt' }, change)
  await world.settle()
  expect(slices).toHaveLength(1)
  return asked
}
async function release(): Promise<void> {
  slices[0]?.(slice(100))
  await world.settle()
}

describe('[GATE14] a question that waits for the organisation is decided under its own turn', () => {
  test('while its turn runs, in the timeline of its run', async () => {
    const asked = waiting()
    await world.settle()
    await release()
    expect(world.answerTo(await asked)).toBe('allow')
    expect([await decisions(first.runId), await decisions(second.runId)]).toEqual([['allow'], []])
  })

  test.each([
    ['that it names', () => ({ turnId: first.id })],
    ['that ran when it came', () => ({})],
  ])(
    'if another turn than the one %s runs by then, it is denied, and booked in its own run',
    async (_, named) => {
      const asked = waiting(named())
      await world.settle()
      await world.endTurn(first)
      expect((await world.actor.api.turns.get(testCaller, second.id)).state).toBe('running')
      await release()
      expect(world.answerTo(await asked)).toBe('deny')
      expect([await decisions(first.runId), await decisions(second.runId)]).toEqual([['deny'], []])
    },
  )

  test('if no turn runs by then', async () => {
    await world.finish(second.runId, 'cancelled')
    const asked = waiting()
    await world.settle()
    await world.endTurn(first)
    await release()
    expect(world.answerTo(await asked)).toBe('deny')
    expect(await decisions(first.runId)).toEqual(['deny'])
  })
})

test('[GATE14] a question that names an ended turn is denied at once, whatever runs', async () => {
  world.organisation.shared = null
  await world.endTurn(first)
  const asked = await world.ask('read', { filePath: 'a.txt' }, { turnId: first.id })
  expect(world.answerTo(asked)).toBe('deny')
  expect([await decisions(first.runId), await decisions(second.runId)]).toEqual([['deny'], []])
})

test('[GATE14] what is told late of an ended turn is in the timeline of its own run, and stops no other', async () => {
  await world.endTurn(first)
  const part = { sessionId: 's', messageId: 'm', partId: 'p', callId: 'c', tool: 'bash', input: {} }
  const told = { ...part, turnId: first.id }
  await world.emit(
    ['tool.started', told],
    ['tool.failed', { ...told, error: 'x', durationMs: 1 }],
    ['gate.bypassed', told],
  )
  for (const kind of ['tool.requested', 'tool.failed', 'error.recorded'])
    expect([
      kind,
      (await world.entries(first.runId, kind)).length,
      (await world.entries(second.runId, kind)).length,
    ]).toEqual([kind, 1, 0])
  expect((await world.run(first.runId)).status).toBe('blocked')
  expect((await world.run(second.runId)).status).toBe('running')
  expect((await world.actor.api.turns.get(testCaller, second.id)).state).toBe('running')
})
