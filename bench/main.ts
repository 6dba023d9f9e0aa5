import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measureAbilities } from './abilities.ts'
import { measureCollecting } from './collecting.ts'
import { measureCalls, measureGrowth, measureReplay } from './calls.ts'
import { measureEveryday } from './everyday.ts'
import { measureEvalOverhead } from './eval-overhead.ts'
import { measureEvals } from './evals.ts'
import { measureEvents } from './events.ts'
import { measureEvidence } from './evidence.ts'
import { measureFleet } from './fleet.ts'
import { measureGate } from './gate.ts'
import { measureIdle } from './idle.ts'
import { measureMemories } from './memories.ts'
import { measureMemory } from './memory.ts'
import { measureProcessor } from './processor.ts'
import { Servers } from './servers.ts'
import { measureSizes } from './sizes.ts'
import { soak } from './soak.ts'
import { measureStall } from './stall.ts'
import { measureStart } from './start.ts'
import { medianRows, printTable, type Row } from './table.ts'
import { measureWatchers } from './watchers.ts'
import { measureWorkerStart } from './worker-start.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** The table is the median of so many runs. */
    runs: { type: 'string', default: '1' },
    /** Of `growth`: how many calls an old session has. */
    calls: { type: 'string', default: '50000' },
    /** Of `fleet` and `soak`. */
    sessions: { type: 'string' },
    /** Of `soak`. */
    minutes: { type: 'string', default: '10' },
    'per-second': { type: 'string', default: '100' },
  },
})

type Measure = (servers: Servers, folder: string) => Promise<Row[]>

/** In this order; those after `sizes` run only if they are named, and the last two print what they find themselves. */
const groups: Record<string, Measure> = {
  calls: async (servers) => measureCalls(await servers.gantry(), await servers.base()),
  replay: async (servers) => measureReplay(await servers.gantry(), await servers.base()),
  gate: async (servers, folder) => measureGate(join(folder, 'gate'), await servers.base()),
  events: async (servers) => [await measureEvents(await servers.gantry(), await servers.base())],
  watchers: async (servers) => [await measureWatchers(await servers.gantry())],
  growth: async (servers) => [await measureGrowth(await servers.gantry(), Number(values.calls))],
  worker: async (servers) => [
    await measureWorkerStart(await servers.gantry(), await servers.base()),
  ],
  memory: (_, folder) => measureMemory(join(folder, 'memory')),
  start: (_, folder) => measureStart(join(folder, 'start')),
  everyday: (_, folder) => measureEveryday(join(folder, 'everyday')),
  evals: async (_, folder) => [...measureEvals(), await measureEvalOverhead(join(folder, 'evals'))],
  evidence: async () => measureEvidence(),
  abilities: () => measureAbilities(),
  collecting: (_, folder) => measureCollecting(join(folder, 'collecting')),
  memories: async (_, folder) => [await measureMemories(join(folder, 'memories'))],
  stall: async (servers) => measureStall(await servers.gantry()),
  idle: measureIdle,
  sizes: measureSizes,
  processor: async (servers, folder) =>
    measureProcessor(await servers.gantry(), await servers.base(), join(folder, 'processor')),
  fleet: async (_, folder) => {
    await measureFleet(join(folder, 'fleet'), Number(values.sessions ?? 50))
    return []
  },
  soak: async (servers) => {
    const [sessions, perSecond] = [Number(values.sessions ?? 1000), Number(values['per-second'])]
    await soak(await servers.gantry(), { sessions, perSecond, minutes: Number(values.minutes) })
    return []
  },
}
const onlyByName = ['processor', 'fleet', 'soak']
/** These share the machine with nobody. */
const alone = ['memory', 'start', 'everyday', 'collecting', 'fleet']

const unknown = positionals.filter((name) => !(name in groups))
if (unknown.length > 0) {
  console.error(`There is no group "${unknown.join(', ')}": ${Object.keys(groups).join(', ')}`)
  process.exit(1)
}

const runs: Row[][] = []
for (let n = 1; n <= Number(values.runs); n++) {
  const rows = await runOnce()
  runs.push(rows)
  if (Number(values.runs) > 1) console.log(`run ${n}`)
  if (n < Number(values.runs)) printTable(rows)
}
if (Number(values.runs) > 1) console.log(`median of ${values.runs} runs`)
printTable(medianRows(runs))

/** Everything anew, so that no run profits from the one before. */
async function runOnce(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  const servers = new Servers(folder)
  const rows: Row[] = []
  try {
    for (const [name, measure] of Object.entries(groups)) {
      if (!isWanted(name)) continue
      if (alone.includes(name)) await servers.stop()
      const startedAt = Date.now()
      rows.push(...(await measure(servers, folder)))
      console.error(`${name}: ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
    }
    return rows
  } finally {
    await servers.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

function isWanted(name: string): boolean {
  return positionals.length > 0 ? positionals.includes(name) : !onlyByName.includes(name)
}
