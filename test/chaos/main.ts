import { parseArgs } from 'node:util'
import { printReport } from './report.ts'
import { runStorm } from './storm.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '1000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    minutes: { type: 'string', default: '30' },
  },
})
const startedAt = Date.now()
const seed = Number(values.seed)
console.log(`Seed ${seed}: run again with "npm run chaos -- --seed ${seed}"`)
const report = await runStorm({
  seed,
  kills: Number(values.kills),
  everyCell: true,
  maxMs: Number(values.minutes) * 60_000,
  onProgress: (line) =>
    console.log(`${((Date.now() - startedAt) / 1000).toFixed(1).padStart(7)} s  ${line}`),
})
console.log(printReport(report))
process.exitCode = report.problems.length === 0 ? 0 : 1
