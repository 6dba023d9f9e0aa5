import { parseArgs } from 'node:util'
import { faults, showFault } from './faults.ts'
import { describe, search } from './search.ts'

// npm run simulate: tries seeds until one breaks a rule. `--seed N` repeats one and prints its shortest schedule,
// `--from N --count N` chooses others, `--fault NAME` puts a mended fault back first, and must find it.

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    from: { type: 'string', default: '1' },
    count: { type: 'string', default: '2000' },
    fault: { type: 'string' },
  },
})

process.exitCode = values.fault === undefined ? await simulate() : await showFaults(values.fault)

async function simulate(): Promise<number> {
  const from = Number(values.seed ?? values.from)
  const count = values.seed === undefined ? Number(values.count) : 1
  const startedAt = performance.now()
  const found = await search(Array.from({ length: count }, (_, index) => from + index))
  if (found) {
    console.log(describe(found))
    return 1
  }
  const perMinute = Math.round((count / (performance.now() - startedAt)) * 60_000)
  console.log(`${count} schedules from seed ${from} kept every rule (${perMinute} a minute)`)
  return 0
}

async function showFaults(name: string): Promise<number> {
  const chosen = name === 'all' ? Object.keys(faults) : [name]
  let missed = 0
  for (const each of chosen) {
    const { isFound, output } = await showFault(each)
    console.log(`${each}: ${isFound ? 'found' : 'NOT FOUND'}\n${output}`)
    if (!isFound) missed += 1
  }
  return missed === 0 ? 0 : 1
}
