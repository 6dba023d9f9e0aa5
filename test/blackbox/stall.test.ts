import { expect, test } from 'vitest'
import { measureStall } from '../../bench/stall.ts'
import { useStack } from '../support/stack.ts'

const stack = useStack('workerd', async () => ({ env: { RATE_LIMIT_PER_MINUTE: '1000000' } }))

// How long they wait is a row of the bench.
test('[POL36] while one key sends the worst bodies in a loop, everybody else is answered', async () => {
  const rows = await measureStall(stack())
  expect(rows.length).toBeGreaterThanOrEqual(10)
  for (const { measure, ours } of rows) expect([measure, ours > 0]).toEqual([measure, true])
}, 300_000)
