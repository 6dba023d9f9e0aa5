import type { Arg } from './arg.ts'
import type { Nested } from './finding.ts'

const runs = new Set(['-exec', '-execdir', '-ok', '-okdir'])

/** `find` runs what stands between -exec and ";" or "+"; the rest are its own arguments. */
export function findParts(
  program: string,
  args: readonly Arg[],
): { args: Arg[]; nested: Nested[] } {
  if (program !== 'find') return { args: [...args], nested: [] }
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
