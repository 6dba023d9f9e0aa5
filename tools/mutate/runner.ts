import { appendFileSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { startTests, type File, type Suite, type Task, type Test } from '@vitest/runner'
import { TestRunner, vi } from 'vitest'
import type { Entry, Plan, Verdict } from './plan.ts'

// Runs inside vitest's worker, in place of its own runner. First all tests without any mutant, to see which test meets
// which mutant and how long it takes; then each mutant with the tests that meet it, the quickest first, until one fails.

declare global {
  var gantryMutant: (id: number) => boolean
}

const plan = JSON.parse(readFileSync(process.env['GANTRY_MUTATION_PLAN'] ?? '', 'utf8')) as Plan
const write = (entry: Entry) => appendFileSync(plan.journal, `${JSON.stringify(entry)}\n`)

/** The one that is on. */
let active = 0
/** Mutants that are met now are met by this. */
let meeting: Set<number> | null = null
/** It was met while it was on. What a module has made once and keeps is not made again. */
let isMet = false
globalThis.gantryMutant = (id) => {
  meeting?.add(id)
  if (id !== active) return false
  isMet = true
  return true
}

interface Met {
  id: string
  file: string
  name: string
  ms: number
}

interface Run {
  /** Ids of tests; null: all. */
  only: ReadonlySet<string> | null
  onTest?: (test: Test, met: Set<number>) => void
}

export default class MutationRunner extends TestRunner {
  #begun = false
  #run: Run | null = null
  #failed: string | null = null
  readonly #byMutant = new Map<number, Met[]>()
  /** Met while modules are loaded: they only change what is loaded anew. */
  readonly #loading = new Set<number>()
  #met = new Set<number>()
  readonly #measured: Met[] = []
  readonly #again: (() => Promise<void>)[] = []

  async onBeforeCollect(): Promise<void> {
    if (this.#begun) return
    this.#begun = true
    const quiet = { onTaskUpdate: noop, onCollected: undefined, onTestAnnotate: undefined }
    const own = this as unknown as Record<string, unknown>
    const loud = Object.fromEntries(Object.keys(quiet).map((key) => [key, own[key]]))
    Object.assign(own, quiet, {
      onCollectStart: noop,
      onCollected: (files: File[]) => this.#choose(files),
    })
    if (await this.#measure()) {
      for (const { id, file } of this.#inOrder()) await this.#try(id, file)
      for (const again of this.#again) await again()
    }
    write({ kind: 'end' })
    Object.assign(own, loud)
  }

  /** What needs all modules anew comes last. */
  #inOrder(): Plan['tries'] {
    const isLate = ({ id }: { id: number }) => this.#loading.has(id)
    return [...plan.tries.filter((mutant) => !isLate(mutant)), ...plan.tries.filter(isLate)]
  }

  /** False if a test is red without any mutant. */
  async #measure(): Promise<boolean> {
    const startedAt = performance.now()
    this.config.testTimeout = this.config.hookTimeout = 180_000
    let count = 0
    for (const file of plan.tests) {
      const own: { met: Met; ids: Set<number> }[] = []
      const files = await this.#tests([file], {
        only: null,
        onTest: (test, ids) => {
          count++
          own.push({
            met: { id: test.id, file, name: nameOf(test), ms: test.result?.duration ?? 0 },
            ids,
          })
        },
      })
      const failed = failureOf(files)
      if (failed) {
        write({ kind: 'red', test: failed.test, error: failed.error })
        return false
      }
      // `beforeAll` is of all tests of its file.
      this.#measured.push(...own.map(({ met }) => met))
      for (const { met, ids } of own)
        for (const id of new Set([...ids, ...this.#met]))
          this.#byMutant.set(id, [...(this.#byMutant.get(id) ?? []), met])
    }
    write({ kind: 'measured', tests: count, ms: performance.now() - startedAt })
    return true
  }

  /**
   * With the nearest and quickest tests that meet it. What lives is tried again at the end with the tests that there was no
   * time for.
   */
  async #try(id: number, file: string): Promise<void> {
    const startedAt = performance.now()
    const all = this.#loading.has(id)
      ? this.#testsOfFile(file)
      : [...(this.#byMutant.get(id) ?? [])].sort(nearFirst(file))
    const met = within(all, plan.budgetMs)
    const by = await this.#killer(id, met)
    const done = (verdict: Verdict, killer: string | null) =>
      write({ kind: 'done', id, verdict, by: killer, ms: performance.now() - startedAt })
    if (all.length === 0) return done('unmet', null)
    if (by !== null) return done('killed', by)
    const rest = within(all.slice(met.length), plan.lastMs)
    if (rest.length === 0) return done('survived', null)
    this.#again.push(async () => {
      const last = await this.#killer(id, rest)
      done(last === null ? 'survived' : 'killed', last)
    })
  }

  /** By file, beginning with the one that has the quickest test. */
  async #killer(id: number, met: readonly Met[]): Promise<string | null> {
    if (met.length === 0) return null
    isMet = false
    const by = await this.#failing(id, met, this.#loading.has(id))
    return by !== null || isMet ? by : this.#failing(id, met, true)
  }

  async #failing(id: number, met: readonly Met[], isLoading: boolean): Promise<string | null> {
    const slowest = Math.max(...met.map(({ ms }) => ms))
    const total = met.reduce((sum, { ms }) => sum + ms, 0)
    this.config.testTimeout = this.config.hookTimeout = plan.limitMs + 4 * slowest
    write({ kind: 'trying', id, withinMs: 2 * plan.limitMs + 5 * total })
    if (isLoading) vi.resetModules()
    const byFile = Map.groupBy(met, ({ file }) => file)
    const seen = async (file: string, only: ReadonlySet<string>, on: number) => {
      active = on
      const failed = failureOf(await this.#tests([file], { only }))
      active = 0
      return failed
    }
    try {
      for (const [file, own] of byFile) {
        const only = new Set(own.map((test) => test.id))
        const failed = await seen(file, only, id)
        if (!failed) continue
        // What a mutant leaves behind may make every test red from now on, so it counts if the same is green without it.
        const same = only.has(failed.id) ? new Set([failed.id]) : only
        if (isLoading || !(await seen(file, same, 0))) return failed.test
        vi.resetModules()
        const fresh = await seen(file, only, id)
        vi.resetModules()
        if (fresh) return fresh.test
      }
      return null
    } finally {
      if (isLoading) vi.resetModules()
    }
  }

  /** Of a mutant that is met while loading any test might show it: first those that meet something else of its file. */
  #testsOfFile(file: string): Met[] {
    const ids = plan.tries.filter((other) => other.file === file).map(({ id }) => id)
    const own = ids.flatMap((id) => this.#byMutant.get(id) ?? []).sort(nearFirst(file))
    const all = this.#measured.toSorted(nearFirst(file))
    return [...new Map([...own, ...all].map((met) => [met.id, met])).values()]
  }

  async #tests(files: string[], run: Run): Promise<File[]> {
    this.#run = run
    this.#failed = null
    this.#met = new Set()
    meeting = run.onTest ? this.#met : null
    const found = await startTests(files, this)
    meeting = null
    return found
  }

  override async importFile(filepath: string, source: 'collect' | 'setup'): Promise<unknown> {
    const modules = (this as unknown as { workerState: { evaluatedModules: EvaluatedModules } })
      .workerState.evaluatedModules
    for (const module of modules.fileToModulesMap.get(filepath) ?? [])
      modules.invalidateModule(module)
    if (this.#run?.onTest) meeting = this.#loading
    const imported = await super.importFile(filepath, source)
    if (this.#run?.onTest) meeting = this.#met
    return imported
  }

  #choose(files: File[]): void {
    const only = this.#run?.only
    if (!only) return
    const skip = (suite: Suite): boolean => {
      for (const task of suite.tasks) {
        const isOut = task.type === 'suite' ? skip(task) : !only.has(task.id)
        if (isOut) task.mode = 'skip'
      }
      return suite.tasks.every(({ mode }) => mode === 'skip' || mode === 'todo')
    }
    for (const file of files) skip(file)
  }

  override async onBeforeRunTask(test: Test): Promise<void> {
    if (this.#failed !== null) test.mode = 'skip'
    await super.onBeforeRunTask(test)
  }

  override onBeforeTryTask(test: Test): void {
    if (this.#run?.onTest) meeting = new Set()
    super.onBeforeTryTask(test)
  }

  override onAfterRunTask(test: Test): void {
    if (test.result?.state === 'fail') this.#failed ??= nameOf(test)
    if (test.mode === 'run' || test.mode === 'queued')
      this.#run?.onTest?.(test, meeting ?? new Set())
    if (this.#run?.onTest) meeting = this.#met
    super.onAfterRunTask(test)
  }
}

interface EvaluatedModules {
  fileToModulesMap: Map<string, Set<object>>
  invalidateModule(module: object): void
}

/** Those of the mirrored folder, or of the nearest above it, and the quickest of them. */
function nearFirst(file: string): (a: Met, b: Met) => number {
  let folder = join(plan.root, 'test', dirname(file).replace(/^src\//, ''))
  const isIn = (test: string) => test.startsWith(`${folder}/`)
  while (folder !== plan.root && !plan.tests.some(isIn)) folder = dirname(folder)
  return (a, b) => Number(isIn(b.file)) - Number(isIn(a.file)) || a.ms - b.ms
}

/** As many as there is time for, and always one. */
function within(met: readonly Met[], budgetMs: number): Met[] {
  let sum = 0
  return met.filter(({ ms }, index) => (sum += ms) <= budgetMs || index === 0)
}

const noop = () => undefined

const nameOf = (test: Task): string =>
  test.suite && test.suite.name !== '' ? `${test.suite.name} > ${test.name}` : test.name

interface Failure {
  id: string
  test: string
  error: string
}

/** The first test, suite or file that failed. */
function failureOf(files: readonly File[]): Failure | null {
  const visit = (task: Task): Task | null => {
    const inner =
      task.type === 'suite' ? (task.tasks.map(visit).find((found) => found !== null) ?? null) : null
    return inner ?? (task.result?.state === 'fail' ? task : null)
  }
  const failed = files.map(visit).find((found) => found !== null)
  if (!failed) return null
  return {
    id: failed.id,
    test: `${failed.file.name}: ${nameOf(failed)}`,
    error: failed.result?.errors?.[0]?.message ?? '',
  }
}
