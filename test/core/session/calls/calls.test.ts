import { describe, expect, test } from 'vitest'
import {
  type BeginInput,
  beginCall,
  failCall,
  releaseCall,
  settleCall,
  listCalls,
  describeCalls,
} from '../../../../src/core/session/calls/rows.ts'
import { climbLadder } from '../../../../src/core/actor/ladder.ts'
import { addToOutbox, outboxLag, unsentOutbox } from '../../../../src/core/actor/outbox.ts'
import type { Sql } from '../../../../src/core/ports.ts'
import { listEvents } from '../../../../src/core/session/log/events.ts'
import { sessionLadder } from '../../../../src/core/session/rungs/ladder.ts'
import { memorySql } from '../../../support/sql.ts'

const unsent = (sql: Sql) => unsentOutbox(sql, (rows) => describeCalls(sql, rows))
const sent = (sql: Sql) => unsent(sql).map(({ payload }) => JSON.parse(payload) as unknown)

const key = { tool: 'tool', toolCallId: 'id', runner: 'here' }
const settled = { success: true, result: 'the answer' }
const input: BeginInput = {
  tool: 'tool',
  toolCallId: 'id',
  operationId: 'op_1',
  sent: '{}',
  args: '{}',
  generation: 1,
  runner: 'here',
  running: false,
  repeatable: false,
  sessionOpen: true,
}

const states = ['absent', 'pending', 'released', 'settled', 'refused', 'failed', 'unknown'] as const
type State = (typeof states)[number]

/** A database in which the call is in this state, begun by `runner`. */
function given(state: State, runner: string) {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  if (state === 'absent') return sql
  beginCall(sql, 1, { ...input, runner })
  if (state === 'released') releaseCall(sql, key)
  if (state === 'settled') settleCall(sql, 2, key, settled)
  if (state === 'refused') settleCall(sql, 2, key, { success: false, result: 'no' })
  if (state === 'failed') failCall(sql, 2, key, 'boom')
  if (state === 'unknown') beginCall(sql, 2, { ...input, runner: 'third' })
  return sql
}

interface Case {
  state: State
  hash: 'same' | 'other'
  /** Who runs a pending call now. */
  runner: 'here' | 'elsewhere' | 'nobody'
  open: boolean
  repeatable: boolean
}

const cases: Case[] = states.flatMap((state) =>
  (['same', 'other'] as const).flatMap((hash) =>
    (['here', 'elsewhere', 'nobody'] as const).flatMap((runner) =>
      [true, false].flatMap((open) =>
        [true, false].map((repeatable) => ({ state, hash, runner, open, repeatable })),
      ),
    ),
  ),
)

/** SPEC, area CALL, as one expression per rule. */
function expected({ state, hash, runner, open, repeatable }: Case): string {
  if (state === 'absent') return open ? 'run' : 'closed' // 2, 11
  if (hash === 'other') return 'conflict' // 6
  if (state === 'settled' || state === 'refused' || state === 'unknown') return 'replay' // 4, 7
  if (state === 'pending' && runner === 'here') return 'join' // 3
  if (!open) return 'unknown' // 11
  if (state === 'released') return 'run' // 9
  return repeatable ? 'run' : 'unknown' // 7, 8
}

describe('beginCall: every state x hash x runner x open x repeatable', () => {
  test.each(cases.map((one) => [JSON.stringify(one), expected(one), one] as const))(
    '%s: %s',
    (_, outcome, one) => {
      const sql = given(one.state, one.runner === 'here' ? 'here' : 'elsewhere')
      const before = listCalls(sql, { limit: 9, after: null }).items[0]
      // Nobody: the row says that this instance began it, but it is not running here.
      const begin = beginCall(sql, 5, {
        ...input,
        runner: one.runner === 'nobody' ? 'elsewhere' : 'here',
        running: one.runner === 'here' && one.state === 'pending',
        sent: one.hash === 'same' ? '{}' : '{"other":1}',
        operationId: 'op_2',
        sessionOpen: one.open,
        repeatable: one.repeatable,
      })
      const after = listCalls(sql, { limit: 9, after: null }).items[0]

      switch (outcome) {
        case 'run':
          expect(begin).toEqual({
            kind: 'run',
            operationId: before?.operationId ?? 'op_2',
            attempt: (before?.attempts ?? 0) + 1,
          })
          expect(after).toMatchObject({ state: 'pending', error: null })
          break
        case 'unknown':
          expect(begin.kind).toBe('replay')
          expect(after).toMatchObject({ state: 'unknown', response: { success: false } })
          expect(after?.response?.result).toContain('Outcome unknown')
          // Whoever comes later gets the same bytes.
          expect(beginCall(sql, 9, { ...input, repeatable: true })).toEqual(begin)
          break
        case 'conflict':
          expect(begin).toEqual({ kind: 'conflict' })
          expect(after).toEqual({ ...before, conflicts: 1 })
          break
        default:
          expect(begin.kind).toBe(outcome)
          expect(after).toEqual(before)
      }
      // What was decided is in the outbox by the same commit.
      if (before?.state !== after?.state)
        expect(sent(sql).at(-1)).toMatchObject({ status: after?.state })
    },
  )
})

describe('arguments with a secret in them', () => {
  const secret = { ...input, sent: '{"text":"hunter22"}', args: '{"text":"[secret:PW]"}' }

  test('[CALL6] are compared as they were sent, and not kept', () => {
    const sql = given('absent', 'here')
    beginCall(sql, 1, secret)
    const body = settleCall(sql, 2, key, settled)
    expect(beginCall(sql, 3, secret)).toEqual({ kind: 'replay', body })
    const other = { ...secret, sent: '{"text":"hunter23"}' }
    expect(beginCall(sql, 4, other)).toEqual({ kind: 'conflict' })
    // What is kept is not what was sent.
    expect(beginCall(sql, 5, { ...input, sent: secret.args })).toEqual({ kind: 'conflict' })
    expect(JSON.stringify(sql.all('select * from calls'))).not.toContain('hunter22')
  })

  test('[CALL6] are the same call after the secret has become known', () => {
    const sql = given('absent', 'here')
    beginCall(sql, 1, { ...secret, args: secret.sent })
    const body = settleCall(sql, 2, key, settled)
    expect(beginCall(sql, 3, secret)).toEqual({ kind: 'replay', body })
  })
})

describe('ends of a call', () => {
  test('[CALL4] the first answer stays: a runner that was thought dead changes nothing', () => {
    const sql = given('unknown', 'here')
    const before = listCalls(sql, { limit: 9, after: null })
    expect(JSON.parse(settleCall(sql, 9, key, settled))).toMatchObject({ success: false })
    failCall(sql, 9, key, 'late')
    releaseCall(sql, key)
    expect(listCalls(sql, { limit: 9, after: null })).toEqual(before)
  })

  test('[CALL4] a replay is byte for byte what settleCall returned', () => {
    const sql = given('pending', 'here')
    const result = { success: true, result: '\u2028 "x" \u{1f600}', data: { z: 1, a: [null, 0.1] } }
    const body = settleCall(sql, 2, key, result)
    expect(beginCall(sql, 3, input)).toEqual({ kind: 'replay', body })
  })

  test('[CALL2] a call is sent as it is, once per batch, and both its states are in the log', () => {
    const sql = given('pending', 'here')
    expect(sent(sql)).toEqual([
      {
        tool: 'tool',
        toolCallId: 'id',
        operationId: 'op_1',
        generation: 1,
        status: 'pending',
        attempts: 1,
        input: '{}',
        output: null,
        error: null,
        durationMs: null,
        startedAt: 1,
        completedAt: null,
      },
    ])
    addToOutbox(sql, 2, 'turn', { id: 'trn' })
    settleCall(sql, 3, key, settled)
    expect(sent(sql)).toMatchObject([
      { id: 'trn' },
      { status: 'settled', output: JSON.stringify(settled), durationMs: 2, completedAt: 3 },
    ])
    // The last number of a batch is always in it: it becomes the watermark.
    expect(unsent(sql).map(({ seq }) => seq)).toEqual([2, 3])
    expect(listEvents(sql, 0, 9).map(({ kind }) => kind)).toEqual(['call.started', 'call.ended'])
    expect(outboxLag(sql, 5)).toEqual({ pending: 3, lagMs: 4 })
  })

  test('[CALL2] a call that runs again has not ended, whatever it was before', () => {
    const sql = given('failed', 'here')
    expect(sent(sql)).toMatchObject([{ status: 'failed', error: 'boom', completedAt: 2 }])
    beginCall(sql, 3, { ...input, repeatable: true })
    expect(sent(sql)).toMatchObject([
      { status: 'pending', error: null, attempts: 2, durationMs: null, completedAt: null },
    ])
  })

  test('[CALL2] rows that an earlier release has left in the outbox are sent as they are', () => {
    const sql = given('settled', 'here')
    addToOutbox(sql, 4, 'call', { toolCallId: 'older' })
    expect(sent(sql)).toMatchObject([{ toolCallId: 'id' }, { toolCallId: 'older' }])
  })
})
