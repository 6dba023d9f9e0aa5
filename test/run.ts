import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { binary, root } from '../local/binaries.ts'
import { onParentGone } from '../local/parent.ts'
import { signalProcess } from '../local/processes.ts'

// Everything that must hold, in one run: types, lint, format, tests. With arguments (`npm test -- test/core`) only the
// tests that they name. The last line counts all of it.

interface Counts {
  passed: number
  failed: number
}

interface Part {
  projects: string[]
  minutes: number
  again: boolean
  output?: 'collect'
}

interface Outcome extends Counts {
  /** Files with a failure. */
  files: string[]
}

const checks: { name: string; args: string[] }[] = [
  { name: 'types', args: ['typescript/bin/tsc', '--noEmit'] },
  {
    name: 'types of the Worker',
    args: ['typescript/bin/tsc', '--noEmit', '-p', 'tsconfig.worker.json'],
  },
  { name: 'types of the core', args: ['typescript/bin/tsc', '--noEmit', '-p', 'src/core'] },
  { name: 'lint', args: ['oxlint/bin/oxlint', '--type-aware'] },
  { name: 'format', args: ['oxfmt/bin/oxfmt', '--check'] },
]

// One after the other; the parts of a stage at once. Real OpenCodes come last: they mostly want the machine for themselves,
// but leave enough of it for the kills. A stage whose tests wait for real servers with a limit may run its failed files
// once more, alone: on a busy machine a wait can pass its limit. Kills never: one failure in two hundred is what they
// look for.
const stages: Part[][] = [
  [{ projects: ['core', 'unit', 'workers', 'blackbox'], minutes: 7, again: true }],
  [
    { projects: ['e2e'], minutes: 9, again: true },
    { projects: ['chaos'], minutes: 6, again: false, output: 'collect' },
  ],
]
const mostAgain = 3

const scratch = mkdtempSync(join(tmpdir(), 'gantry-run-'))
const children = new Set<ChildProcess>()
const endAll = () => children.forEach(endGroup)
process.on('exit', () => {
  endAll()
  rmSync(scratch, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => process.exit(130))
onParentGone(() => process.exit(130))

const given = process.argv.slice(2)
const counts: Counts[] = []
if (given.length > 0) {
  counts.push(await runTests(given, 45))
} else {
  // Mostly waits, for longer than any stage takes.
  const parked = runTests(['--project', 'park'], 12, 'collect')
  const checked = Promise.all(checks.map(runCheck))
  for (const stage of stages) counts.push(...(await Promise.all(stage.map(runPart))))
  counts.push(...(await checked), await parked)
}
const sum = (pick: keyof Counts) => counts.reduce((all, one) => all + one[pick], 0)
console.log(`${sum('passed')} passed, ${sum('failed')} failed`)
process.exit(sum('failed') === 0 ? 0 : 1)

async function runCheck({
  name,
  args: [file = '', ...args],
}: (typeof checks)[number]): Promise<Counts> {
  const { code, output } = await run(file, args, 3, 'collect')
  if (code !== 0) console.log(`\n✗ ${name}\n${output}`)
  else console.log(`✓ ${name}`)
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 }
}

async function runPart({ projects, minutes, again, output }: Part): Promise<Counts> {
  const args = projects.flatMap((name) => ['--project', name])
  const first = await runTests(args, minutes, output)
  if (!again || first.files.length === 0 || first.files.length > mostAgain) return first
  console.log(`\n↻ once more, alone: ${first.files.join(', ')}`)
  const second = await runTests([...args, '--maxWorkers=1', ...first.files], 4)
  if (second.failed > 0 || second.passed === 0) return first
  console.log(`↻ passed alone after ${first.failed} failed at first: ${first.files.join(', ')}`)
  return { passed: first.passed + first.failed, failed: 0 }
}

async function runTests(
  args: string[],
  minutes: number,
  output: 'show' | 'collect' = 'show',
): Promise<Outcome> {
  const report = join(scratch, `${randomUUID()}.json`)
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const vitest = ['run', '--passWithNoTests', ...reporters, ...args]
  const { code, output: shown } = await run('vitest/vitest.mjs', vitest, minutes, output)
  if (output === 'collect') console.log(shown)
  const found = readReport(report)
  // An error outside of any test, or no report at all: a failure all the same.
  if (code !== 0 && found.failed === 0) {
    console.log(`✗ vitest ended with ${code ?? `no result after ${minutes} minutes`}`)
    return { ...found, failed: 1 }
  }
  return found
}

interface Report {
  numPassedTests: number
  numFailedTests: number
  testResults: { name: string; status: string; assertionResults: { status: string }[] }[]
}

function readReport(path: string): Outcome {
  if (!existsSync(path)) return { passed: 0, failed: 0, files: [] }
  const report = JSON.parse(readFileSync(path, 'utf8')) as Report
  const failed = report.testResults.filter(({ status }) => status === 'failed')
  // A file that cannot be loaded, or whose set-up fails, has no failed test of its own.
  const broken = failed.filter(
    ({ assertionResults }) => !assertionResults.some((test) => test.status === 'failed'),
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken.length,
    files: failed.map(({ name }) => relative(root, name)),
  }
}

/** One tool of node_modules under our Node. `code` is null if it had to be ended. */
function run(
  file: string,
  args: string[],
  minutes: number,
  output: 'show' | 'collect',
): Promise<{ code: number | null; output: string }> {
  const child = spawn(binary('node'), [join(root, 'node_modules', file), ...args], {
    cwd: root,
    detached: true,
    stdio: output === 'show' ? ['ignore', 'inherit', 'inherit'] : ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const timer = setTimeout(() => endGroup(child), minutes * 60_000)
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ code: 1, output: error.message }))
    child.once('close', (code) => {
      clearTimeout(timer)
      children.delete(child)
      resolve({ code, output: text })
    })
  })
}

function endGroup(child: ChildProcess): void {
  if (child.pid !== undefined && child.exitCode === null) signalProcess(-child.pid, 'SIGKILL')
}
