import { readdirSync, readFileSync } from 'node:fs'
import type { IsolationPlan } from '../../../src/contract/operation.ts'
import { wallTasks } from './enclosure.ts'

/** Descendants. In a pid namespace nobody gets away: who loses its parent becomes the first process's child. */
export function censusOf(pid: number, atMost: number): number[] {
  const found = [pid]
  for (let at = 0; at < found.length && found.length <= atMost; at += 1) {
    found.push(...childrenOf(found[at] as number))
  }
  return found
}

// Each thread has the children that it made.
function childrenOf(pid: number): number[] {
  return tasksOf(pid)
    .flatMap((task) => read(`/proc/${pid}/task/${task}/children`).split(' '))
    .filter((child) => child !== '')
    .map(Number)
}

function tasksOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

/** What is more than allowed; undefined: nothing. The kernel limits each process, and this all of them together. */
export function censusOverLimit(
  pids: readonly number[],
  { memoryBytes, processes }: Pick<IsolationPlan['limits'], 'memoryBytes' | 'processes'>,
): string | undefined {
  if (pids.length > processes + wallTasks) return `more than ${processes} processes`
  let bytes = 0
  for (const pid of pids) bytes += memoryOf(pid)
  return bytes > memoryBytes ? `more than ${memoryBytes} bytes of memory` : undefined
}

// Not the files that it maps: they are the page cache's.
function memoryOf(pid: number): number {
  const status = read(`/proc/${pid}/status`)
  const kibibytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0)
  return (kibibytes('RssAnon') + kibibytes('RssShmem')) * 1024
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
