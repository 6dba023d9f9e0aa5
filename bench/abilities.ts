import { parse } from 'yaml'
import { ExecutionCreate } from '../src/contract/execution.ts'
import { parseAbilityDefinition } from '../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../src/core/session/executions/rows.ts'
import { RunWorld } from '../test/support/run-world.ts'
import { testCaller } from '../test/support/session.ts'
import type { Row } from './table.ts'

const steps = 50
const rounds = 9

/** What the engine of abilities costs: per script against the same operation without one, and to read a long definition. */
export async function measureAbilities(): Promise<Row[]> {
  return [await measureSteps(), measureReading()]
}

async function measureSteps(): Promise<Row> {
  const ours: number[] = []
  const bare: number[] = []
  // The first of each warms up.
  for (let round = 0; round <= rounds; round += 1) {
    const [one, other] = [await playAbility(), await playOperations()]
    if (round === 0) continue
    ours.push(one / steps)
    bare.push(other / steps)
  }
  return row('script step of an ability against the same operation, p50', ours, bare, 'ms', 1.3)
}

async function playAbility(): Promise<number> {
  const world = await new RunWorld().begin()
  const ability = copyOf(abilityOf(steps))
  const create = ExecutionCreate.parse({ ability: ability.name })
  const startedAt = performance.now()
  await world.actor.api.abilities.execute(testCaller, { create, ability, nested: [] }, null)
  for (let done = 0; done < steps; done += 1) {
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
  }
  await world.settle()
  const spent = performance.now() - startedAt
  const [execution] = world.rowsOf<{ state: string }>('executions')
  if (execution?.state !== 'completed') throw new Error('The ability has not come to its end')
  return spent
}

async function playOperations(): Promise<number> {
  const world = await new RunWorld().begin({}, allowAll)
  const { id } = await world.createRun()
  const operation = { category: 'shell', operation: 'run', command: 'true', timeoutMs: 300_000 }
  const startedAt = performance.now()
  for (let done = 0; done < steps; done += 1) {
    await world.execute(id, operation)
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
  }
  return performance.now() - startedAt
}

const allowAll = {
  ...{ name: 'all', version: 1, approvals: { timeoutSeconds: 600 }, groups: {} },
  overrides: { agents: {}, subagents: {} },
  rules: [{ id: 'all', match: { category: 'shell' as const }, decision: 'allow' as const }],
}

function measureReading(): Row {
  const text = abilityOf(1000)
  const ours: number[] = []
  const bare: number[] = []
  for (let round = 0; round <= rounds; round += 1) {
    const one = timed(() => parseAbilityDefinition(text, null))
    const other = timed(() => parse(text) as unknown)
    if (round > 0) ours.push(one)
    if (round > 0) bare.push(other)
  }
  return row('1,000 steps validated against parsing their YAML, p50', ours, bare, 'ms', 3)
}

function abilityOf(count: number): string {
  const lines = Array.from({ length: count }, (_, at) => {
    const needs = at === 0 ? '' : `, needs: [s${at - 1}]`
    return `  - { id: s${at}, run: 'true'${needs} }`
  })
  return `name: bench\ndescription: d\nsteps:\n${lines.join('\n')}\n`
}

function copyOf(yaml: string): AbilityCopy {
  const parsed = parseAbilityDefinition(yaml, null)
  if ('errors' in parsed) throw new Error('The ability cannot be read')
  return { name: 'bench', version: 1, hash: '0'.repeat(64), definition: parsed.ability, files: [] }
}

function timed(work: () => unknown): number {
  const startedAt = performance.now()
  work()
  return performance.now() - startedAt
}

const median = (numbers: number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

function row(
  measure: string,
  ours: number[],
  bare: number[],
  unit: Row['unit'],
  most: number,
): Row {
  const half = Math.floor(bare.length / 2)
  return {
    ...{ measure, ours: median(ours), base: median(bare.slice(0, half)) },
    ...{ baseAgain: median(bare.slice(half)), unit, aim: { most } },
  }
}
