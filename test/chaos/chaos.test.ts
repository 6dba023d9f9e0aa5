import { expect, test } from 'vitest'
import { isLong } from '../support/long.ts'
import { printReport } from './report.ts'
import { runStorm } from './storm.ts'

const seed = Number(process.env['GANTRY_SEED'] ?? 1)
/** In the long run each field of the matrix, with others in between; else those that come first. */
const kills = isLong ? 200 : 60

test(
  `[CALL7] [CALL9] [ATT21] [LINK2] [EVT5] [OUT1] [OUT3] killed ${kills} times at crash points and in between, nothing happens twice and nothing is lost`,
  { timeout: 900_000 },
  async () => {
    const report = await runStorm({ seed, kills, everyCell: isLong, maxMs: 600_000 })
    console.log(printReport(report))
    expect(report.problems).toEqual([])
  },
)
