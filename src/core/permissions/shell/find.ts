import type { Arg } from './arg.ts'
import type { Nested } from './finding.ts'

const findRuns = new Set(['-exec', '-execdir', '-ok', '-okdir'])
const fdRuns = new Set(['-x', '--exec', '-X', '--exec-batch'])
const runsOf: Record<string, ReadonlySet<string>> = { find: findRuns, fd: fdRuns, fdfind: fdRuns }

/** `find` runs what stands between -exec and ";" or "+", and `fd` likewise; the rest are its own arguments. */
export function findParts(
  program: string,
  args: readonly Arg[],
): { args: Arg[]; nested: Nested[] } {
  const runs = Object.hasOwn(runsOf, program) ? runsOf[program] : undefined
  if (!runs) return { args: [...args], nested: [] }
  const own: Arg[] = []
  const nested: Nested[] = []
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] as Arg
    if (!runs.has(arg.value)) {
      own.push(arg)
      continue
    }
    const from = index + 1
    while (index < args.length && !/^[;+]$/.test(args[index]?.value ?? '')) index += 1
    const words = args.slice(from, index)
    if (words.length > 0) nested.push({ kind: 'command', words, fed: true })
  }
  return { args: own, nested }
}
