import { expect, test } from 'vitest'
import { isLong } from '../support/long.ts'
import { printReport } from './report.ts'
import { runStorm } from './storm.ts'

const seed = Number(process.env['GANTRY_SEED'] ?? 1)
/** In the long run enough for each field of the matrix, with others in between. */
const kills = isLong ? 200 : 30

test(
  `[CALL7] [CALL9] [ATT21] [LINK2] [EVT5] [OUT1] [OUT3] killed ${kills} times at every crash point and in between, nothing happens twice and nothing is lost`,
  { timeout: 900_000 },
  async () => {
    const report = await runStorm({ seed, kills, maxMs: 300_000 })
    console.log(printReport(report))
    expect(report.problems).toEqual([])
  },
)
