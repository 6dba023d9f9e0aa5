import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import type { Boot } from '../../src/contract/manifest.ts'
import type { GroupLimits } from './control-group.ts'

/** Threads count as well. Far above what builds need, far below what stops a machine. */
const defaultProcesses = 4096
/** Of the machine's memory. */
const defaultShare = 0.75
/** The kernel counts what is reserved writable, used or not: Bun, and so OpenCode, reserves up to 5 GB and dies below. */
const leastDataBytes = 6 * 1024 ** 3

type Limits = NonNullable<Boot['limits']>

/** For all that is inside together. */
export const groupLimits = ({ processes, memoryMb }: Limits = {}): GroupLimits => ({
  processes: processes ?? defaultProcesses,
  memoryBytes: memoryMb ? memoryMb * 1024 ** 2 : Math.floor(totalmem() * defaultShare),
})

/**
 * Options of prlimit: how many processes there may be inside, and how much memory each may ask for. Private writable
 * memory, and not address space: runtimes reserve far more of that than they use.
 */
export function enclosureLimitOptions(limits: Limits = {}): string[] {
  const { processes, memoryBytes } = groupLimits(limits)
  const most = Math.min(processes, hardLimit('Max processes'))
  const data = Math.min(Math.max(memoryBytes, leastDataBytes), hardLimit('Max data size'))
  return [`--nproc=${most}:${most}`, `--data=${data}:${data}`, '--core=0']
}

/** What the agent itself is held to: without rights nobody can pass it. */
function hardLimit(name: string): number {
  const line = readFileSync('/proc/self/limits', 'utf8')
    .split('\n')
    .find((each) => each.startsWith(name))
  const hard = line?.slice(name.length).trim().split(/\s+/)[1]
  return hard === undefined || hard === 'unlimited' ? Infinity : Number(hard)
}
