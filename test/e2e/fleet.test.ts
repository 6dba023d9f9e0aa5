import { expect, test } from 'vitest'
import { runFleet, thingsOf } from '../../bench/fleet.ts'
import { portsOf, until, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

const isFull = process.env['GANTRY_FULL'] === '1'
/** All fifty take minutes on two cores. */
const count = isFull ? 50 : 12
const title = isFull ? '' : ', a sample of the 50 of GANTRY_FULL=1 and of the bench'

test(
  `[LOC22] ${count} sessions at once${title}: all are created, answer and close; no process, port or folder is left`,
  async () => {
    const look = () => {
      const things = thingsOf(stack())
      return { ...things, ports: portsOf(things.processes) }
    }
    const before = look()
    expect(before.folders).toEqual([])
    const { turns, sessions } = await runFleet(stack(), count)
    expect(turns.map(({ state, text }) => `${state}: ${text}`)).toEqual(
      Array.from({ length: count }, () => 'completed: Done.'),
    )
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
  },
  isFull ? 600_000 : 240_000,
)
