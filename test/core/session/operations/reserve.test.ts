import { beforeEach, describe, expect, test } from 'vitest'
import { reserveAttempt } from '../../../../src/core/session/operations/attempts.ts'
import { RunWorld } from '../../../support/run-world.ts'

let world: RunWorld
let reserved: { id: string; operationId: string; runId: string }

beforeEach(async () => {
  world = await new RunWorld().begin()
  const { id: runId } = await world.createRun()
  const { id: operationId, attempts } = await world.execute(runId)
  reserved = { id: attempts[0]?.id ?? '', operationId, runId }
})

/** Whoever asks has looked before; these hold whatever they have seen. */
describe('[ATT20] a second attempt of an operation beside a reserved one', () => {
  test('is refused by its function, with the name of the first', () => {
    const second = { ...reserved, approvalId: null, decisionSeq: 1, pendingSeq: null }
    expect(() =>
      reserveAttempt(world.sql, world.now, { ...second, id: 'att_2', executor: 'workspace' }),
    ).toThrow(`Attempt "${reserved.id}" of this operation is reserved`)
    expect(world.rowsOf('attempts')).toHaveLength(1)
  })

  test('is refused by the table', () => {
    const copy = (status: string, sequence: number) =>
      world.sql.run(
        `insert into attempts (id, operation_id, run_id, decision_seq, sequence, executor, status, dispatched, reserved_at)
         values (?, ?, ?, 1, ?, 'workspace', ?, 0, 1)`,
        `att_${sequence}`,
        reserved.operationId,
        reserved.runId,
        sequence,
        status,
      )
    expect(() => copy('reserved', 2)).toThrow(/unique/i)
    copy('failed', 3)
  })
})
