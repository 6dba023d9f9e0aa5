import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary, root } from '../local/binaries.ts'
import { onParentGone } from '../local/parent.ts'
import { signalProcess } from '../local/processes.ts'

// Everything that must hold, in one run: types, lint, format, tests. With arguments (`npm test -- test/core`) only the
// tests that they name. The last line counts all of it.

interface Counts {
  passed: number
  failed: number
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

// Kills and real OpenCodes come last: they want the machine for themselves.
const stages: { projects: string[]; minutes: number }[] = [
  { projects: ['unit', 'workers', 'blackbox'], minutes: 7 },
  { projects: ['chaos'], minutes: 5 },
  { projects: ['e2e'], minutes: 9 },
]

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
  counts.push(...(await Promise.all(checks.map(runCheck))))
  for (const { projects, minutes } of stages) {
    counts.push(
      await runTests(
        projects.flatMap((name) => ['--project', name]),
        minutes,
      ),
    )
  }
  counts.push(await parked)
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

async function runTests(
  args: string[],
  minutes: number,
  output: 'show' | 'collect' = 'show',
): Promise<Counts> {
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

function readReport(path: string): Counts {
  if (!existsSync(path)) return { passed: 0, failed: 0 }
  const report = JSON.parse(readFileSync(path, 'utf8')) as Report
  // A file that cannot be loaded, or whose set-up fails, has no failed test of its own.
  const broken = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  )
  return { passed: report.numPassedTests, failed: report.numFailedTests + broken.length }
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
