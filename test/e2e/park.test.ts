import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bash, Box, sleep, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

/** Longer than a request inside OpenCode may be silent. */
const parkedMs = 5 * 60_000 + 10_000

test(
  '[GATE5] a question that is parked for more than five minutes and then allowed still runs, once',
  async () => {
    const box = await Box.open(stack(), { gate: { ask: ['bash'], askTimeoutSeconds: 1800 } })
    const turn = await box.prompt([bash('echo ran >> ran.txt'), { text: 'It ran after all.' }])
    const ask = await box.parked()
    await sleep(parkedMs)
    expect(existsSync(box.folder('workspace/ran.txt'))).toBe(false)
    expect((await box.view()).turn).toBe(turn.id)
    expect((await box.answer(ask, 'allow')).status).toBe(200)
    expect(await box.ended(turn)).toMatchObject({ state: 'completed', text: 'It ran after all.' })
    expect(readFileSync(box.folder('workspace/ran.txt'), 'utf8')).toBe('ran\n')
    const [decided] = await box.eventsOf('gate.decided')
    expect(decided).toMatchObject({ decision: 'allow' })
    expect(decided?.waitedMs).toBeGreaterThan(5 * 60_000)
  },
  parkedMs + 90_000,
)
