import { expect, test } from 'vitest'
import { measureStall } from '../../bench/stall.ts'
import { useStack } from '../support/stack.ts'

const stack = useStack('workerd', async () => ({ env: { RATE_LIMIT_PER_MINUTE: '1000000' } }))

test('[POL36] while one key sends the worst bodies in a loop, others wait at most five times as long', async () => {
  const rows = await measureStall(stack())
  const ratios = rows.map(({ measure, ours, base, baseAgain }) => ({
    measure,
    isFine: ours <= 5 * Math.max(base, baseAgain),
    shown: `${ours.toFixed(1)} ms, without ${base.toFixed(1)} and ${baseAgain.toFixed(1)} ms`,
  }))
  expect(ratios.filter(({ isFine }) => !isFine)).toEqual([])
}, 300_000)
