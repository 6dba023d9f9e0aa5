import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { root } from '../local/binaries.ts'
import { onParentGone } from '../local/processes/parent.ts'
import { signalProcess } from '../local/processes/processes.ts'
import { writeLongRun } from './runner/long-run.ts'
import { everything, longChains, longLast, type Part, vitest } from './runner/parts.ts'
import { secondsOfEndedChildren } from './runner/processor.ts'
import { lineOf, nothing, type Outcome, readReport, sumOf } from './runner/reports.ts'
import { findRoom, knownWords } from './runner/rooms.ts'
import { createRunFolder } from './runner/run-folder.ts'

// Everything that must hold, in one run: types, lint, format, tests. With arguments only the tests that they name: a word
// (`npm test -- calls`), a path (`npm test -- test/core`), or whatever vitest takes. The last line counts all of it.

/** So many tests at once: some wait for servers, so more than the two cores of a small machine, but not many more. */
const capacity = 5
/** Of those that leave the processors to the others. */
const capacityBehind = 2
/** A run of tests that does not come to an end is ended. */
const maxMinutes = 45

const seed = findSeed()
const folder = createRunFolder()
const children = new Set<ChildProcess>()
let ending = false
let countedSeconds: number | undefined
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => void endAll(130))
onParentGone(() => void endAll(130))

const given = process.argv.slice(2)
const outcomes = await runGiven()
for (const title of outcomes.flatMap(({ skips }) => skips)) console.log(`skipped: ${title}`)
const left = await folder.left(10_000)
for (const command of left) console.log(`✗ left running: ${command}`)
const total = sumOf([...outcomes, { ...nothing, failed: left.length }])
console.log(lineOf(total))
await endAll(total.failed === 0 ? 0 : 1)

async function runGiven(): Promise<Outcome[]> {
  console.log(`Seed ${seed}: GANTRY_SEED=${seed} npm test repeats it`)
  if (given.length === 0) return runParts(everything)
  if (given[0] === '--long') return runLong(given.slice(1))
  const filters = given.some((argument) => argument.startsWith('-'))
    ? given
    : given.flatMap(filesOf)
  return [await runTests('tests', vitest(...filters), 'show')]
}

/** `calls` becomes the files of its room; a path stays as it is. */
function filesOf(argument: string): string[] {
  if (/[/.]/.test(argument)) return [argument]
  const { files, others } = findRoom(argument)
  if (files.length === 0) {
    console.log(`Cannot find tests of "${argument}". Known: ${knownWords().join(', ')}, or a path`)
    process.exit(2)
  }
  if (others.length > 0) console.log(`Start servers, so only by path: ${others.join(' ')}`)
  return files
}

/** With paths: only those, and the table has only their rows anew. */
async function runLong(filters: string[]): Promise<Outcome[]> {
  process.env['GANTRY_LONG'] = '1'
  const part = (files: readonly string[]) =>
    runTests('long run', vitest('--project', 'long', ...files), 'show')
  const inOrder = async (chain: readonly string[][]) => {
    const outcomes: Outcome[] = []
    for (const files of chain) outcomes.push(await part(files))
    return outcomes
  }
  const outcomes =
    filters.length > 0
      ? [await part(filters)]
      : [...(await Promise.all(longChains.map(inOrder))).flat(), await part([longLast])]
  console.log(writeLongRun(outcomes.flatMap(({ files }) => files)))
  return outcomes
}

async function runParts(parts: readonly Part[]): Promise<Outcome[]> {
  const [before, behind] = await Promise.all([
    runWithin(
      capacity,
      parts.filter(({ nice }) => nice === undefined),
    ),
    runWithin(
      capacityBehind,
      parts.filter(({ nice }) => nice !== undefined),
    ),
  ])
  return [...before, ...behind]
}

/** In order, as many at once as there is room for. */
async function runWithin(room: number, parts: readonly Part[]): Promise<Outcome[]> {
  const waiting = [...parts]
  const results: Promise<Outcome>[] = []
  const running = new Set<Promise<unknown>>()
  let free = room
  while (waiting.length > 0 && !ending) {
    const at = waiting.findIndex(({ width }) => width <= free)
    if (at === -1) {
      await Promise.race(running)
      continue
    }
    const [part] = waiting.splice(at, 1) as [Part]
    free -= part.width
    const result = runPart(part)
    results.push(result)
    const done: Promise<unknown> = result.then(() => {
      free += part.width
      running.delete(done)
    })
    running.add(done)
  }
  return Promise.all(results)
}

async function runPart(part: Part): Promise<Outcome> {
  if (part.isTests) return runTests(part.name, part, 'collect')
  const startedAt = Date.now()
  const ended = await run(part, 'collect')
  const outcome = { ...nothing, passed: ended.code === 0 ? 1 : 0, failed: ended.code === 0 ? 0 : 1 }
  say(part.name, outcome, startedAt, ended)
  return outcome
}

async function runTests(
  name: string,
  command: Command,
  output: 'show' | 'collect',
): Promise<Outcome> {
  const startedAt = Date.now()
  const report = join(folder.path, `${randomUUID()}.json`)
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const args = [...command.args, ...reporters]
  const ended = await run({ ...command, args }, output)
  const found = outcomeOf(ended.code, readReport(report), args)
  if (output === 'collect') say(name, found, startedAt, ended)
  return found
}

function outcomeOf(code: number | null, found = nothing, args: readonly string[]): Outcome {
  // What a pattern of titles leaves out is not skipped.
  const isPart = args.some((argument) => /^(-t|--testNamePattern)/.test(argument))
  const outcome = isPart ? { ...found, skipped: 0, skips: [] } : found
  if (code === 0 || outcome.failed > 0) return outcome
  // An error outside of any test, or no report at all: a failure all the same.
  console.log(
    `✗ vitest ended ${code === null ? 'by a signal' : `with ${code}`} and no report of a failure`,
  )
  return { ...outcome, failed: 1 }
}

function say(name: string, outcome: Outcome, startedAt: number, ended: Ended): void {
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
  const { output, processorSeconds } = ended
  const cost =
    processorSeconds === undefined ? '' : `, ${processorSeconds.toFixed(0)} s of processors`
  if (outcome.failed > 0) console.log(`\n${output}`)
  console.log(
    `${outcome.failed > 0 ? '✗' : '✓'} ${name}: ${lineOf(outcome)} in ${seconds} s${cost}`,
  )
}

type Command = Pick<Part, 'program' | 'args' | 'nice'>

interface Ended {
  /** null if it had to be ended. */
  code: number | null
  output: string
  /** Of it and of all that it has waited for. */
  processorSeconds: number | undefined
}

function run({ program, args, nice }: Command, output: 'show' | 'collect'): Promise<Ended> {
  const child = spawn(program, args, {
    cwd: root,
    detached: true,
    env: { ...process.env, ...folder.environment, GANTRY_SEED: String(seed) },
    stdio: output === 'show' ? ['ignore', 'inherit', 'inherit'] : ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  if (nice !== undefined && child.pid !== undefined) leaveProcessors(child.pid, nice)
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const timer = setTimeout(() => endGroup(child), maxMinutes * 60_000)
  return new Promise((resolve) => {
    let processorSeconds: number | undefined
    child.once('exit', () => (processorSeconds = nextSeconds()))
    child.once('error', ({ message }) => resolve({ code: 1, output: message, processorSeconds }))
    child.once('close', (code) => {
      clearTimeout(timer)
      children.delete(child)
      resolve({ code, output: text, processorSeconds })
    })
  })
}

/** What the child that has just ended has added. */
function nextSeconds(): number | undefined {
  const before = countedSeconds
  countedSeconds = secondsOfEndedChildren()
  return countedSeconds === undefined ? undefined : countedSeconds - (before ?? 0)
}

/** Linux may weigh whole sessions against each other, and this one is the leader of its own. */
function leaveProcessors(pid: number, nice: number): void {
  setPriority(pid, nice)
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(nice))
  } catch {
    // Another system, or one that weighs processes alone.
  }
}

function endGroup(child: ChildProcess): void {
  if (child.pid !== undefined && child.exitCode === null) signalProcess(-child.pid, 'SIGKILL')
}

async function endAll(code: number): Promise<void> {
  if (ending) return
  ending = true
  children.forEach(endGroup)
  await folder.end()
  process.exit(code)
}

/** Another one with each commit, so that random tests try new things, and the same one for the same commit. */
function findSeed(): number {
  const given = Number(process.env['GANTRY_SEED'])
  if (Number.isInteger(given) && given > 0) return given
  try {
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' })
    return Number.parseInt(commit.slice(0, 7), 16)
  } catch {
    return Math.floor(Date.now() / 86_400_000)
  }
}
