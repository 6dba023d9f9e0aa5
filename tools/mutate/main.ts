import { readFileSync, writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from '../../local/binaries.ts'
import { onParentGone } from '../../local/processes/parent.ts'
import { isSame, readAccepted, reasonOf, staleEntries } from './accepted.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import { ownMutants } from './own.ts'
import type { Result } from './plan.ts'
import { runMutants } from './run.ts'
import { changedFiles, filesUnder, onlyCalls, testsFor } from './sources.ts'

const usage = `npm run mutate -- FOLDER|FILE… [--changed [--base main]] [--tests PATH…] [--sample N --seed S] [--budget MS] [--last MS] [--limit MS] [--json FILE] [--again FILE] [--list]
npm run mutate -- --own FILE --tests PATH…      changes of your own: [{ "file": …, "was": …, "now": … }]`

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
    last: { type: 'string', default: '20000' },
    json: { type: 'string' },
    list: { type: 'boolean', default: false },
    again: { type: 'string' },
    own: { type: 'string' },
  },
})

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => process.exit(130))
onParentGone(() => process.exit(130))
setPriority(0, constants.priority.PRIORITY_BELOW_NORMAL)
const own = values.own === undefined ? null : ownMutants(root, values.own)
const files = [
  ...new Set([
    ...(own?.keys() ?? []),
    ...positionals.flatMap((path) => filesUnder(root, path)),
    ...(values.changed ? changedFiles(root, values.base) : []),
  ]),
]
if (files.length === 0) fail(values.changed ? 'Nothing has changed' : usage)

const accepted = readAccepted(join(import.meta.dirname, 'accepted.json'))
const byFile = own ?? readMutants(files)
const all = [...byFile.values()].flatMap(({ mutants }) => mutants)
for (const stale of own ? [] : staleEntries(accepted, files, all))
  console.log(`accepted, but not there any more: ${stale}`)
const chosen = choose(all)
const before = values.again === undefined ? [] : readKilled(values.again)
const isKilled = (mutant: Mutant) =>
  before.some((other) => isSame(other.mutant, mutant) && other.mutant.nth === mutant.nth)
const tries = chosen.filter((mutant) => reasonOf(accepted, mutant) === null && !isKilled(mutant))
if (values.list) {
  for (const mutant of chosen) console.log(lineOf(mutant))
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
const found: Result[] = []
await runMutants({
  root,
  byFile,
  tries,
  tests,
  limitMs: Number(values.limit),
  budgetMs: Number(values.budget),
  lastMs: Number(values.last),
  onMeasured: (count, ms) =>
    console.log(`${count} tests take ${(ms / 1000).toFixed(1)} s without a mutant`),
  onResult: (result, done) => {
    const { mutant, verdict } = result
    found.push(result)
    if (own)
      console.log(`${verdict}: ${lineOf(mutant)}${result.by === null ? '' : ` | ${result.by}`}`)
    else if (verdict !== 'killed') console.log(`${verdict}: ${lineOf(mutant)}`)
    if (done % (own ? 5 : 20) !== 0) return
    save()
    console.log(`… ${done} of ${tries.length}, ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
  },
})
save()
print(chosen.map(resultOf))

function resultOf(mutant: Mutant): Result {
  const known =
    found.find((result) => result.mutant.id === mutant.id) ??
    before.find((result) => isSame(result.mutant, mutant) && result.mutant.nth === mutant.nth)
  if (known) return known
  return { mutant, verdict: reasonOf(accepted, mutant) === null ? 'untried' : 'accepted', by: null }
}

/** Also on the way, so that `--again` goes on with what is left. */
function save(): void {
  if (values.json !== undefined)
    writeFileSync(values.json, JSON.stringify(chosen.map(resultOf), null, 1))
}

/** Of an earlier run: what was killed then is not tried again. */
function readKilled(path: string): Result[] {
  const all = JSON.parse(readFileSync(path, 'utf8')) as Result[]
  return all.filter(({ verdict }) => verdict === 'killed' || verdict === 'hung')
}

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
  if (values.sample === undefined) return [...mutants]
  let state = Number(values.seed) >>> 0
  const random = () => {
    // mulberry32
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return mutants
    .map((mutant) => ({ mutant, at: random() }))
    .sort((a, b) => a.at - b.at)
    .slice(0, Number(values.sample))
    .map(({ mutant }) => mutant)
    .sort((a, b) => a.id - b.id)
}

function lineOf({ file, line, operator, was, now }: Mutant): string {
  return `${file}:${line} ${operator}: ${was} -> ${now === '' ? '(nothing)' : now}`
}

function print(all: readonly Result[]): void {
  const count = (some: readonly Result[], ...verdicts: Result['verdict'][]) =>
    some.filter(({ verdict }) => verdicts.includes(verdict)).length
  const row = (folder: string, some: readonly Result[]) => {
    const killed = count(some, 'killed', 'hung')
    const percent = ((100 * killed) / some.length).toFixed(1)
    const living = count(some, 'survived', 'unmet')
    return `| ${folder} | ${some.length} | ${killed} | ${count(some, 'accepted')} | ${living} | ${percent} |`
  }
  console.log('\n| folder | mutants | killed | accepted | survived | percent |')
  console.log('|---|---|---|---|---|---|')
  const folders = Map.groupBy(all, ({ mutant }) => dirname(mutant.file))
  for (const [folder, some] of folders) console.log(row(folder, some))
  console.log(row('all', all))
  console.log(`in ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
  process.exitCode = count(all, 'survived', 'unmet') > 0 ? 1 : 0
}

function fail(message: string): never {
  console.error(message)
  process.exit(2)
}
