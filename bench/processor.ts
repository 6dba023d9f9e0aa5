import { readdirSync, readFileSync } from 'node:fs'
import type { Stack } from '../local/stack/stack.ts'
import { baseCall, call, createTarget, createTargets, type Target } from './calls.ts'
import { type Asker, openBare, openTurn, withGate } from './gate.ts'
import { type Load, run } from './load.ts'
import { median, type Row } from './table.ts'

const rounds = 3
/** Rows that wait for their burst belong to the calls that have written them. */
const settleMs = 2000

interface Side {
  stack: Stack
  run: () => Promise<unknown>
  settleMs: number
}

/**
 * The time of the processor that workerd takes per request, ours and the baseline by turns. It says less than a latency,
 * but a busy machine hardly changes it.
 */
export async function measureProcessor(
  stack: Stack,
  base: Stack,
  stateDir: string,
): Promise<Row[]> {
  return [...(await measureRequests(stack, base)), await measureQuestions(stateDir, base)]
}

async function measureRequests(stack: Stack, base: Stack): Promise<Row[]> {
  const all = await createTargets(stack, 1000)
  const rows: Row[] = []
  const measure = async (
    name: string,
    shape: Pick<Load, 'clients' | 'requests'>,
    sides: Load['make'][],
  ) => {
    const [ours, theirs] = sides as [Load['make'], Load['make']]
    rows.push(
      await compare(
        name,
        shape.requests,
        { stack, run: () => run(stack.url, { ...shape, make: ours }), settleMs },
        { stack: base, run: () => run(base.url, { ...shape, make: theirs }), settleMs: 200 },
      ),
    )
  }
  for (const [sessions, clients, requests] of [
    [1, 1, 1000],
    [1, 32, 3000],
    [64, 1, 1000],
    [1000, 1, 1000],
  ] as const)
    await measure(
      `first call, ${clients} client(s), ${sessions} session(s)`,
      { clients, requests },
      [
        (k) => call(all[k % sessions] as Target, `processor-${fresh++}`),
        (k) => baseCall(`o${k % sessions}`, `processor-${fresh++}`),
      ],
    )
  const target = await createTarget(stack)
  const again = (k: number) => `again-${k % 100}`
  await run(base.url, { clients: 1, requests: 100, make: (k) => baseCall('again', again(k)) })
  for (const clients of [1, 32])
    await measure(
      `replay, ${clients} client(s)`,
      { clients, requests: clients === 1 ? 1500 : 4000 },
      [(k) => call(target, again(k)), (k) => baseCall('again', again(k), 'read')],
    )
  return rows
}

let fresh = 0
const questions = 500

async function measureQuestions(stateDir: string, base: Stack): Promise<Row> {
  return withGate(stateDir, async (stack) => {
    const [ours, theirs] = [await openTurn(stack), await openBare(base)]
    const asked = async (asker: Asker) => {
      for (let n = 0; n < questions; n++) await asker.ask()
    }
    const row = await compare(
      'gate, an allow over the link',
      questions,
      { stack, run: () => asked(ours), settleMs },
      { stack: base, run: () => asked(theirs), settleMs: 200 },
    )
    for (const asker of [ours, theirs]) asker.close()
    return row
  })
}

async function compare(name: string, requests: number, ours: Side, theirs: Side): Promise<Row> {
  const times: { ours: number[]; base: number[] } = { ours: [], base: [] }
  for (let n = 0; n <= rounds; n++) {
    times.base.push(await perRequest(theirs, requests))
    times.ours.push(await perRequest(ours, requests))
  }
  // The first round of each has made its objects and compiled its code.
  return {
    measure: `processor, ${name}`,
    ours: median(times.ours.slice(1)),
    base: median(times.base.slice(1)),
    unit: 'ms',
  }
}

async function perRequest(side: Side, requests: number): Promise<number> {
  const before = processorMs(side.stack.worker.pid())
  await side.run()
  await new Promise((resolve) => setTimeout(resolve, side.settleMs))
  return (processorMs(side.stack.worker.pid()) - before) / requests
}

/** Of all threads that live now. */
function processorMs(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const ns = tasks.map((task) =>
    Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]),
  )
  return ns.reduce((sum, each) => sum + each, 0) / 1e6
}

const ticksPerSecond = 100

/** Of a process and all below it, also of those that have ended by now. */
export function processorMsBelow(root: number): number {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? [])
  const below = new Set([root])
  // A child may have a lower number than its parent.
  for (let known = 0; known !== below.size;) {
    known = below.size
    for (const { pid, parent } of all) if (below.has(parent)) below.add(pid)
  }
  const ticks = all.reduce((sum, { pid, ticks: own }) => sum + (below.has(pid) ? own : 0), 0)
  return (ticks / ticksPerSecond) * 1000
}

function statOf(pid: number): { pid: number; parent: number; ticks: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    // Its own time in both modes, and that of children that were waited for.
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + each, 0)
    return { pid, parent: fields[1] ?? 0, ticks }
  } catch {
    return null
  }
}
