import { setTimeout as sleep } from 'node:timers/promises'
import { executionsOf } from './check-operations.ts'
import type { Scene } from './scene.ts'

/** Waits, asking libSQL only, until every session has done and sent by itself what it had to. */
export async function drained(scene: Scene, withinMs: number): Promise<number> {
  const startedAt = Date.now()
  let left: string[] = []
  while (Date.now() - startedAt < withinMs) {
    left = [
      ...(await callsLeft(scene)),
      ...(await livesLeft(scene)),
      ...(await attemptsLeft(scene)),
      ...scene.agents.filter((agent) => !agent.settled).map(() => 'unacknowledged events'),
    ]
    if (left.length === 0) return Date.now() - startedAt
    await sleep(200)
  }
  scene.complain(`libSQL has not caught up after ${withinMs / 1000} s: ${left.join(', ')}`)
  return Date.now() - startedAt
}

async function callsLeft(scene: Scene): Promise<string[]> {
  const calls = scene.callers.reduce((sum, caller) => sum + caller.calls.length, 0)
  const [row] = await scene.db.all<{ known: number; pending: number }>(
    `select count(*) as known, coalesce(sum(status = 'pending'), 0) as pending from session_tool_invocations`,
  )
  return row?.known === calls && row.pending === 0
    ? []
    : [`${row?.known} of ${calls} calls, ${row?.pending} of them pending`]
}

async function attemptsLeft(scene: Scene): Promise<string[]> {
  const executed = scene.operators.flatMap((operator) => executionsOf(scene, operator)).length
  const [row] = await scene.db.all<{ known: number; reserved: number }>(
    `select count(*) as known, coalesce(sum(status = 'reserved'), 0) as reserved from operation_attempts`,
  )
  return row?.known === executed && row.reserved === 0
    ? []
    : [`${row?.known} of ${executed} attempts, ${row?.reserved} of them reserved`]
}

async function livesLeft(scene: Scene): Promise<string[]> {
  const rows = await scene.db.all<{ id: string; state: string; ended: number }>(
    `select id, sandbox_state as state,
       (select count(*) from turns where session_id = sessions.id and ended_at is not null) as ended from sessions`,
  )
  const known = new Map(rows.map((row) => [row.id, row]))
  return scene.lives.flatMap(({ sessionId, end, turnIds }) => {
    const row = known.get(sessionId)
    if (end === 'deleted') return row ? [`${sessionId} is not deleted`] : []
    if (row?.ended !== turnIds.length)
      return [`${sessionId} has ${row?.ended} of ${turnIds.length} turns`]
    return end === 'closed' && row.state !== 'stopped'
      ? [`The sandbox of ${sessionId} is ${row.state}`]
      : []
  })
}
