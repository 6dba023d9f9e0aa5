import { expect, test } from 'vitest'
import { printReport } from './report.ts'
import { runStorm } from './storm.ts'

const seed = Number(process.env['GANTRY_CHAOS_SEED'] ?? 1)

test(
  '[CALL7] [CALL9] [ATT21] [LINK2] [EVT5] [OUT1] [OUT3] killed 200 times at every crash point and in between, nothing happens twice and nothing is lost',
  { timeout: 380_000 },
  async () => {
    const report = await runStorm({ seed, kills: 200, maxMs: 240_000 })
    console.log(printReport(report))
    expect(report.problems).toEqual([])
  },
)
