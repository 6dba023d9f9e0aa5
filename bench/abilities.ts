import { parse } from 'yaml'
import { ExecutionCreate } from '../src/contract/execution.ts'
import { parseAbilityDefinition } from '../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../src/core/session/executions/rows.ts'
import { countStatements } from '../test/support/count-statements.ts'
import { RunWorld } from '../test/support/run-world.ts'
import { testCaller } from '../test/support/session.ts'
import type { Row } from './table.ts'

const steps = 20
const rounds = 30

/** What the engine of abilities costs: per script against the same operation without one, and to read a long definition. */
export async function measureAbilities(): Promise<Row[]> {
  return [...(await measureSteps()), measureReading()]
}

/** Of so many scripts or operations, one after the other. */
interface Played {
  /** Processor time of this thread: others on the machine do not count. */
  ms: number
  /** Statements and transactions, so the same each time. */
  statements: number
}

type Play = (count: number) => Promise<Played>

/** What each costs beyond the first, so that what an execution costs once is not counted: both are decided by one policy. */
async function measureSteps(): Promise<Row[]> {
  const ours: Played[] = []
  const bare: Played[] = []
  // The first of each warms up.
  for (let round = 0; round <= rounds; round += 1) {
    const [one, other] = [await perStep(playAbility), await perStep(playOperations)]
    if (round === 0) continue
    ours.push(one)
    bare.push(other)
  }
  return (['ms', 'statements'] as const).map((unit) => {
    const of = (all: Played[]) => all.map((played) => played[unit])
    return row(
      `script step of an ability against its operation alone, ${unit}`,
      of(ours),
      of(bare),
      unit,
      1.3,
    )
  })
}

async function perStep(play: Play): Promise<Played> {
  const first = await play(1)
  const all = await play(steps + 1)
  return {
    ms: (all.ms - first.ms) / steps,
    statements: (all.statements - first.statements) / steps,
  }
}

const playAbility: Play = async (count) => (await execution(count)).played

/** The very operations of such an ability, each sent when the one before it has ended. */
const playOperations: Play = async (count) => {
  const operations = await operationsOf(count)
  const world = await new RunWorld().begin({}, allowAll)
  const { id } = await world.createRun()
  const stop = measured(world)
  for (const operation of operations) {
    await world.execute(id, operation)
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
  }
  await world.settle()
  return stop()
}

async function execution(count: number): Promise<{ played: Played; world: RunWorld }> {
  const world = await new RunWorld().begin({}, allowAll)
  const ability = copyOf(abilityOf(count))
  const create = ExecutionCreate.parse({ ability: ability.name })
  const stop = measured(world)
  await world.actor.api.abilities.execute(testCaller, { create, ability, nested: [] }, null)
  for (let done = 0; done < count; done += 1) {
    await world.settle()
    await world.result(world.executes().at(-1)?.id ?? '', { exitCode: 0 })
  }
  await world.settle()
  const played = stop()
  const [row] = world.rowsOf<{ state: string }>('executions')
  if (row?.state !== 'completed') throw new Error('The ability has not come to its end')
  return { played, world }
}

const known = new Map<number, Record<string, unknown>[]>()

/** With the environment that a step has: inputs, and what the steps before it have printed. */
async function operationsOf(count: number): Promise<Record<string, unknown>[]> {
  const found = known.get(count) ?? (await execution(count)).world.executes().map(operationOf)
  known.set(count, found)
  return found
}

function operationOf({ body }: { body: Record<string, unknown> }): Record<string, unknown> {
  const { ability: _, ...operation } = body['operation'] as Record<string, unknown>
  return operation
}

function measured({ sql }: RunWorld): () => Played {
  const statements = countStatements(sql)
  const before = process.threadCpuUsage()
  return () => {
    const { user, system } = process.threadCpuUsage(before)
    return { ms: (user + system) / 1000, statements: statements() }
  }
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
