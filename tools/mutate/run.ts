import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { instrument } from './instrument.ts'
import type { Mutant } from './mutants.ts'
import type { Entry, Plan, Result } from './plan.ts'

export interface RunOptions {
  root: string
  /** All mutants of the files, by file: they are all in the code, though not all are tried. */
  byFile: ReadonlyMap<string, { source: string; mutants: readonly Mutant[] }>
  tries: readonly Mutant[]
  tests: readonly string[]
  /** A test may take so much longer than it takes without a mutant; four times that is the end. */
  limitMs: number
  budgetMs: number
  lastMs: number
  onResult?: (result: Result, done: number) => void
  onMeasured?: (tests: number, ms: number) => void
}

/** Before the first word of a process: it has to load everything and run all tests once. */
const startLimitMs = 600_000

/** Each mutant gets its verdict. A process that hangs is ended, its mutant counts as seen, and the next process goes on. */
export async function runMutants(options: RunOptions): Promise<Result[]> {
  const results = new Map<number, Result>()
  const byId = new Map(options.tries.map((mutant) => [mutant.id, mutant]))
  const note = (id: number, verdict: Result['verdict'], by: string | null) => {
    const mutant = byId.get(id)
    if (!mutant) return
    const result = { mutant, verdict, by }
    results.set(id, result)
    options.onResult?.(result, results.size)
  }
  while (results.size < options.tries.length) {
    const before = results.size
    const hanging = await runProcess(
      options,
      options.tries.filter(({ id }) => !results.has(id)),
      note,
    )
    if (hanging !== null) note(hanging, 'hung', null)
    else if (results.size === before)
      throw new Error('Cannot go on: the process ended without a word')
  }
  return options.tries.flatMap(({ id }) => results.get(id) ?? [])
}

/** Resolves with the mutant that was being tried if the process hung or died. */
async function runProcess(
  options: RunOptions,
  tries: readonly Mutant[],
  note: (id: number, verdict: Result['verdict'], by: string | null) => void,
): Promise<number | null> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-mutate-'))
  const planFile = join(folder, 'plan.json')
  const journal = join(folder, 'journal')
  const plan: Plan = {
    root: options.root,
    sources: Object.fromEntries(
      [...options.byFile].map(([file, { source, mutants }]) => [
        join(options.root, file),
        instrument(source, mutants),
      ]),
    ),
    tests: options.tests.map((test) => join(options.root, test)),
    tries: tries.map(({ id, file }) => ({ id, file })),
    limitMs: options.limitMs,
    budgetMs: options.budgetMs,
    lastMs: options.lastMs,
    journal,
  }
  writeFileSync(planFile, JSON.stringify(plan))
  writeFileSync(journal, '')
  const child = spawn(process.execPath, [join(import.meta.dirname, 'child.ts')], {
    cwd: options.root,
    detached: true,
    // Whatever its tests start has the folder's name in its arguments.
    env: { ...process.env, TMPDIR: folder, GANTRY_MUTATION_PLAN: planFile, GANTRY_SEED: '1' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  const end = () => {
    endGroup(child)
    endMentioning(folder)
  }
  process.once('exit', end)
  try {
    return await follow(child, journal, options, note)
  } finally {
    end()
    process.off('exit', end)
    rmSync(folder, { recursive: true, force: true })
  }
}

async function follow(
  child: ChildProcess,
  journal: string,
  { onMeasured }: RunOptions,
  note: (id: number, verdict: Result['verdict'], by: string | null) => void,
): Promise<number | null> {
  let trying: number | null = null
  let endsAt = Date.now() + startLimitMs
  let read = 0
  let complaint = ''
  let exited = false
  child.stderr?.on(
    'data',
    (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-4000)),
  )
  child.once('exit', () => (exited = true))
  for (;;) {
    const isLast = exited
    const lines = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').slice(0, -1) : []
    for (; read < lines.length; read++) {
      const entry = JSON.parse(lines[read] ?? '') as Entry
      if (entry.kind === 'end') return null
      if (entry.kind === 'red')
        throw new Error(
          `Cannot begin: a test is red without any mutant: ${entry.test}\n${entry.error}`,
        )
      if (entry.kind === 'measured') onMeasured?.(entry.tests, entry.ms)
      if (entry.kind === 'trying') {
        trying = entry.id
        endsAt = Date.now() + entry.withinMs
      }
      if (entry.kind === 'done') {
        note(entry.id, entry.verdict, entry.by)
        trying = null
        endsAt = Date.now() + startLimitMs
      }
    }
    if (isLast && trying === null) throw new Error(`Cannot go on: vitest has ended\n${complaint}`)
    if (isLast || Date.now() > endsAt) return trying
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

function endGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

/** Servers that tests have started outlive a process that was killed: a hanging one cannot stop them. */
function endMentioning(folder: string): void {
  if (!existsSync('/proc/self/cmdline')) return
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${folder}/`))
        process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended meanwhile, or is somebody else's.
    }
}
