import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../local/binaries.ts'
import { startStack } from '../local/stack/stack.ts'
import { measureCalls, measureGrowth, measureReplay } from './calls.ts'
import { measureEveryday } from './everyday.ts'
import { measureEvents } from './events.ts'
import { measureEvidence } from './evidence.ts'
import { measureFleet } from './fleet.ts'
import { measureGate } from './gate.ts'
import { measureMemory } from './memory.ts'
import { measureSizes } from './sizes.ts'
import { measureStall } from './stall.ts'
import { measureStart } from './start.ts'
import { printTable, type Row } from './table.ts'

const { values } = parseArgs({
  options: {
    /** Names of the parts to run; default all. */
    only: { type: 'string' },
    calls: { type: 'string', default: '100000' },
    sessions: { type: 'string', default: '50' },
  },
})
const wanted = (part: string) => values.only === undefined || values.only.split(',').includes(part)

const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
const common = { host: 'workerd', sandboxes: false, model: 'none' } as const
const base = await startStack({
  ...common,
  stateDir: join(folder, 'base'),
  entry: join(root, 'bench', 'baseline.ts'),
  objects: { BASE: 'BaseObject' },
  healthPath: '/',
})
const stack = await startStack({
  ...common,
  stateDir: join(folder, 'gantry'),
  entry: join(root, 'bench', 'worker.ts'),
  env: { RATE_LIMIT_PER_MINUTE: '100000000' },
})
try {
  const rows: Row[] = []
  if (wanted('calls')) rows.push(...(await measureCalls(stack, base)))
  if (wanted('replay')) rows.push(...(await measureReplay(stack, base)))
  if (wanted('events')) rows.push(await measureEvents(stack, base))
  if (wanted('gate')) rows.push(...(await measureGate(join(folder, 'gate'), base)))
  if (wanted('memory')) rows.push(await measureMemory(join(folder, 'memory')))
  if (wanted('growth')) rows.push(await measureGrowth(stack, Number(values.calls)))
  if (wanted('stall')) rows.push(...(await measureStall(stack)))
  await stack.stop()
  await base.stop()
  if (wanted('evidence')) rows.push(...measureEvidence())
  if (wanted('start')) rows.push(...(await measureStart(join(folder, 'start'))))
  if (wanted('everyday')) rows.push(...(await measureEveryday(join(folder, 'everyday'))))
  printTable(rows)
  if (wanted('fleet')) await measureFleet(join(folder, 'fleet'), Number(values.sessions))
  if (wanted('sizes')) {
    for (const { name, bytes, limit } of await measureSizes()) {
      const met = bytes < limit ? 'yes' : 'NO'
      console.log(`${name}: ${(bytes / 1000).toFixed(0)} KB, aim under ${limit / 1000} KB: ${met}`)
    }
  }
} finally {
  await stack.stop()
  await base.stop()
  rmSync(folder, { recursive: true, force: true })
}
