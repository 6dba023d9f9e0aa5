import { readFileSync, writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../../local/binaries.ts'
import { onParentGone } from '../../local/processes/parent.ts'
import { type Accepted, readAccepted, reasonOf, staleEntries } from './accepted.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import type { Result } from './plan.ts'
import { runMutants } from './run.ts'
import { changedFiles, filesUnder, onlyCalls, testsFor } from './sources.ts'

const usage = `npm run mutate -- FOLDER|FILE… [--changed [--base main]] [--tests PATH…] [--sample N --seed S] [--budget MS] [--limit MS] [--json FILE] [--list]`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changed: { type: 'boolean', default: false },
    base: { type: 'string', default: 'main' },
    tests: { type: 'string', multiple: true, default: [] },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    limit: { type: 'string', default: '4000' },
    budget: { type: 'string', default: '3000' },
    json: { type: 'string' },
    list: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => process.exit(130))
onParentGone(() => process.exit(130))
setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL)
const files = [
  ...new Set([
    ...positionals.flatMap((path) => filesUnder(root, path)),
    ...(values.changed ? changedFiles(root, values.base) : []),
  ]),
]
if (files.length === 0) fail(values.changed ? 'Nothing has changed' : usage)

const accepted = readAccepted(join(import.meta.dirname, 'accepted.json'))
const byFile = readMutants(files)
const all = [...byFile.values()].flatMap(({ mutants }) => mutants)
for (const stale of staleEntries(accepted, files, all))
  console.log(`accepted, but not there any more: ${stale}`)
const tries = choose(all)
if (values.list) {
  for (const mutant of tries) console.log(lineOf(mutant))
  process.exit(0)
}
const tests =
  values.tests.length > 0
    ? values.tests.flatMap((path) => filesUnder(root, path, '.test.ts'))
    : testsFor(root, files)
if (tests.length === 0) fail('Cannot find tests of it: name them with --tests')
console.log(
  `${tries.length} of ${all.length} mutants in ${files.length} files, ${tests.length} files of tests`,
)

const startedAt = Date.now()
const results = await runMutants({
  root,
  byFile,
  tries,
  tests,
  limitMs: Number(values.limit),
  budgetMs: Number(values.budget),
  onMeasured: (count, ms) =>
    console.log(`${count} tests take ${(ms / 1000).toFixed(1)} s without a mutant`),
  onResult: ({ mutant, verdict }, done) => {
    if (verdict !== 'killed' && reasonOf(accepted, mutant) === null)
      console.log(`${verdict}: ${lineOf(mutant)}`)
    if (done % 100 === 0)
      console.log(`… ${done} of ${tries.length}, ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
  },
})
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(results, null, 1))
print(results, accepted)

function readMutants(paths: readonly string[]) {
  const onlyCall = onlyCalls(root)
  let id = 0
  return new Map(
    paths.map((file) => {
      const source = readFileSync(join(root, file), 'utf8')
      const mutants = mutantsOf(file, source, onlyCall).map((mutant) => ({ ...mutant, id: ++id }))
      return [file, { source, mutants }]
    }),
  )
}

/** With a seed, always the same ones. */
function choose(mutants: readonly Mutant[]): Mutant[] {
  const wanted =
    values.only === undefined
      ? mutants
      : mutants.filter((mutant) =>
          values.only?.split(',').includes(`${mutant.file}:${mutant.line}`),
        )
  if (values.sample === undefined) return [...wanted]
  let state = Number(values.seed) >>> 0
  const random = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return wanted
    .map((mutant) => ({ mutant, at: random() }))
    .sort((a, b) => a.at - b.at)
    .slice(0, Number(values.sample))
    .map(({ mutant }) => mutant)
    .sort((a, b) => a.id - b.id)
}

function lineOf({ file, line, operator, was, now }: Mutant): string {
  return `${file}:${line} ${operator}: ${was} -> ${now === '' ? '(nothing)' : now}`
}

function print(found: readonly Result[], list: readonly Accepted[]): void {
  const rows = [...Map.groupBy(found, ({ mutant }) => dirname(mutant.file))].map(
    ([folder, own]) => {
      const killed = own.filter(({ verdict }) => verdict === 'killed' || verdict === 'hung')
      const living = own.filter((result) => !killed.includes(result))
      const excused = living.filter(({ mutant }) => reasonOf(list, mutant) !== null)
      return {
        folder,
        all: own.length,
        killed: killed.length,
        accepted: excused.length,
        left: living.length - excused.length,
      }
    },
  )
  console.log(
    '\n| folder | mutants | killed | accepted | survived | percent |\n|---|---|---|---|---|---|',
  )
  for (const row of [...rows, total(rows)])
    console.log(
      `| ${row.folder} | ${row.all} | ${row.killed} | ${row.accepted} | ${row.left} | ${((100 * row.killed) / row.all).toFixed(1)} |`,
    )
  console.log(`in ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
  process.exitCode = rows.some(({ left }) => left > 0) ? 1 : 0
}

function total(rows: readonly { all: number; killed: number; accepted: number; left: number }[]) {
  const sum = (key: 'all' | 'killed' | 'accepted' | 'left') =>
    rows.reduce((count, row) => count + row[key], 0)
  return {
    folder: 'all',
    all: sum('all'),
    killed: sum('killed'),
    accepted: sum('accepted'),
    left: sum('left'),
  }
}

function fail(message: string): never {
  console.error(message)
  process.exit(2)
}
