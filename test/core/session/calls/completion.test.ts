import { describe, expect, test } from 'vitest'
import { automationCompleteTool } from '../../../../src/contract/tools.ts'
import {
  type CompletableRun,
  completionAnswer,
  type CompletionDecision,
  decideCompletion,
  type IncomingCompletion,
  samePayload,
  toCompletion,
} from '../../../../src/core/session/calls/tools/completion.ts'

const incoming: IncomingCompletion = {
  sessionId: 'ses_a',
  runId: 'run_1',
  completionId: 'c1',
  payload: { outcome: 'succeeded', summary: 'done', data: { a: 1, b: [1, { x: 1, y: 2 }] } },
}
const open: CompletableRun = { runId: 'run_1', sessionId: 'ses_a', completion: null }
const completed: CompletableRun = {
  ...open,
  completion: { completionId: 'c1', payload: incoming.payload },
}
const reordered = {
  data: { b: [1, { y: 2, x: 1 }], a: 1 },
  summary: 'done',
  outcome: 'succeeded' as const,
}

const table: [string, CompletableRun | null, Partial<IncomingCompletion>, CompletionDecision][] = [
  ['no such run', null, {}, { kind: 'bad-run' }],
  ['another run than named', open, { runId: 'run_2' }, { kind: 'bad-run' }],
  ['open run', open, {}, { kind: 'record' }],
  ['open run of another session', open, { sessionId: 'ses_b' }, { kind: 'other-session' }],
  ['same id, same payload', completed, {}, { kind: 'no-op' }],
  ['same id, keys in another order', completed, { payload: reordered }, { kind: 'no-op' }],
  [
    'same id, other outcome',
    completed,
    { payload: { ...reordered, outcome: 'failed' } },
    { kind: 'mismatch' },
  ],
  ['same id, less payload', completed, { payload: { outcome: 'succeeded' } }, { kind: 'mismatch' }],
  [
    'same id, list in another order',
    completed,
    { payload: { ...reordered, data: { a: 1, b: [{ x: 1, y: 2 }, 1] } } },
    { kind: 'mismatch' },
  ],
  [
    'other id, same payload',
    completed,
    { completionId: 'c2' },
    { kind: 'already-recorded', completionId: 'c1' },
  ],
  [
    'other id, other payload',
    completed,
    { completionId: 'c2', payload: { outcome: 'failed' } },
    { kind: 'already-recorded', completionId: 'c1' },
  ],
  [
    'completed run of another session',
    completed,
    { sessionId: 'ses_b' },
    { kind: 'other-session' },
  ],
]

describe('completing a run', () => {
  test.each(table)('%s', (_name, existing, changes, decision) => {
    expect(decideCompletion(existing, { ...incoming, ...changes })).toEqual(decision)
  })

  test('recording and repeating are answered alike', () => {
    expect(completionAnswer({ kind: 'record' }, incoming)).toEqual(
      completionAnswer({ kind: 'no-op' }, incoming),
    )
    expect(completionAnswer({ kind: 'record' }, incoming).success).toBe(true)
  })

  test.each<CompletionDecision>([
    { kind: 'mismatch' },
    { kind: 'already-recorded', completionId: 'c0' },
    { kind: 'other-session' },
    { kind: 'bad-run' },
  ])('$kind is an answer, not an error', (decision) => {
    const answer = completionAnswer(decision, incoming)
    expect(answer.success).toBe(false)
    expect(answer.result).toContain('Cannot complete run "run_1": ')
  })

  test('an answer has what it is about, and a refusal its reason', () => {
    expect(completionAnswer({ kind: 'record' }, incoming).data).toEqual({
      ...{ runId: 'run_1', completionId: 'c1', outcome: 'succeeded' },
    })
    const refused = (decision: CompletionDecision) => {
      const { data, result } = completionAnswer(decision, incoming)
      return [data, result.split(': ')[1]]
    }
    expect(refused({ kind: 'mismatch' })).toEqual([
      { reason: 'mismatch' },
      'completion "c1" was recorded with other content',
    ])
    expect(refused({ kind: 'already-recorded', completionId: 'c0' })).toEqual([
      { reason: 'already-recorded' },
      'completion "c0" is already recorded',
    ])
    expect(refused({ kind: 'bad-run' })[0]).toEqual({ reason: 'bad-run' })
  })

  test('whether another session has the run is not told', () => {
    expect(completionAnswer({ kind: 'other-session' }, incoming)).toEqual(
      completionAnswer({ kind: 'bad-run' }, incoming),
    )
  })

  test('parsed arguments become a completion, ids outside the payload', () => {
    const args = automationCompleteTool.args.parse({
      runId: 'run_1',
      completionId: 'c1',
      outcome: 'failed',
    })
    expect(toCompletion('ses_a', args)).toEqual({
      sessionId: 'ses_a',
      runId: 'run_1',
      completionId: 'c1',
      payload: { outcome: 'failed' },
    })
  })
})

test.each<[unknown, unknown, boolean]>([
  [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
  [{ a: undefined }, {}, true],
  [{ a: null }, {}, false],
  [{ a: 1 }, { a: '1' }, false],
  [[1, 2], [2, 1], false],
  [{ 10: 'x', 9: 'y' }, { 9: 'y', 10: 'x' }, true],
])('%j and %j are the same payload: %s', (a, b, same) => {
  expect(samePayload(a, b)).toBe(same)
})
