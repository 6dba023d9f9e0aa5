import { expect, test } from 'vitest'
import { runFleet, thingsOf } from '../../bench/fleet.ts'
import { portsOf, until, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

const count = 50

test(`[LOC22] ${count} sessions at once: all are created, answer and close; no process, port or folder is left`, async () => {
  const look = () => {
    const things = thingsOf(stack())
    return { ...things, ports: portsOf(things.processes) }
  }
  const before = look()
  expect(before.folders).toEqual([])
  const { turns, sessions, replaced } = await runFleet(stack(), count)
  expect(turns.map(({ state, text }) => `${state}: ${text}`)).toEqual(
    Array.from({ length: count }, () => 'completed: Done.'),
  )
  expect(replaced).toEqual([])
  for (const { status, sandbox } of sessions)
    expect({ status, state: sandbox.state, generation: sandbox.generation }).toEqual({
      status: 'closed',
      state: 'stopped',
      generation: 1,
    })
  // The taker of a snapshot or a git of the host may still be on its way out.
  await until('only the stack is left', 10_000, () => {
    return look().processes.length <= before.processes.length
  })
  expect(look()).toEqual(before)
}, 900_000)
