// What this system can hold a sandbox to: a number of processes (by prlimit, if sandboxes have users of their own) and
// an amount of memory (by looking once a second, on Linux). What it cannot enforce it says in its checks. The host
// finds the limits at its start; sandboxes wrap their agent in them, and the fleet watches.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import type { ProviderCheck } from '../../src/core/ports.ts'
import { findEachProcess, signalProcess, type Wanted } from '../processes/processes.ts'

/** Threads count as well. Far above what builds need, far below what stops a machine. */
const defaultProcesses = 4096
/** Of the machine: a sandbox that nobody has limited must leave something to the stack. */
const defaultMemoryMb = Math.floor((totalmem() * 0.75) / 1024 ** 2)

export interface Limits {
  /** The command, so wrapped that it and whatever it starts keep to the limit. */
  wrap(command: string[], processes: number | null): string[]
  /** One look at the memory of each: the largest process of one that is above its limit is ended. */
  watch(sandboxes: readonly Watched[]): void
  checks: ProviderCheck[]
}
interface Watched {
  name: string
  memoryMb: number | null
  wanted: Wanted
}

/** What this system can hold a sandbox to. */
export function findSandboxLimits(hasUsers: boolean): Limits {
  // It counts all processes of a user: without a user of its own, a sandbox would be refused what others have started.
  const canCount = hasUsers && spawnSync('prlimit', ['--nproc=64:64', 'true']).status === 0
  const canWatch = process.platform === 'linux'
  return {
    wrap: (command, processes) => {
      if (!canCount) return command
      const most = processes ?? defaultProcesses
      return ['prlimit', `--nproc=${most}:${most}`, '--', ...command]
    },
    watch: (sandboxes) => {
      if (canWatch) endLargest(sandboxes)
    },
    checks: [processCheck(canCount, hasUsers), memoryCheck(canWatch)],
  }
}

function processCheck(ok: boolean, hasUsers: boolean): ProviderCheck {
  const name = 'process limit'
  if (ok) {
    const message = `Enforced by the system; ${defaultProcesses} unless a session says otherwise`
    return { name, ok, message, hint: null }
  }
  return {
    name,
    ok,
    message: hasUsers
      ? 'Not enforced: a sandbox can start any number of processes'
      : 'Enforced in full enclosures only: without one a sandbox can start any number of processes',
    hint: hasUsers
      ? 'Install "prlimit" (of util-linux)'
      : 'Start the sandbox host as root, so that each sandbox has a user of its own',
  }
}

function memoryCheck(ok: boolean): ProviderCheck {
  const name = 'memory limit'
  if (!ok)
    return {
      name,
      ok,
      message: 'Not enforced: a sandbox can take any amount of memory',
      hint: 'Run the sandbox host on Linux, or use another provider for what is not trusted',
    }
  const message = `Watched: the largest process of a sandbox above its limit is ended in a second; ${defaultMemoryMb} MB unless a session says otherwise`
  return { name, ok, message, hint: null }
}

function endLargest(sandboxes: readonly Watched[]): void {
  if (sandboxes.length === 0) return
  const found = findEachProcess(sandboxes.map(({ wanted }) => wanted))
  for (const [at, { name, memoryMb }] of sandboxes.entries()) {
    const sizes = (found[at] ?? []).map((pid) => ({ pid, kb: memoryKb(pid) }))
    const totalKb = sizes.reduce((sum, { kb }) => sum + kb, 0)
    const largest = sizes.reduce((a, b) => (b.kb > a.kb ? b : a), { pid: 0, kb: 0 })
    if (largest.pid === 0 || totalKb <= (memoryMb ?? defaultMemoryMb) * 1024) continue
    signalProcess(largest.pid, 'SIGKILL')
    const usedMb = Math.round(totalKb / 1024)
    console.log(
      JSON.stringify({ msg: 'memory limit', sandbox: name, memoryMb, usedMb, ...largest }),
    )
  }
}

/** Its own memory: what it shares with others as files is not counted. */
function memoryKb(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const lines = status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)
    return [...lines].reduce((sum, [, kb]) => sum + Number(kb), 0)
  } catch {
    return 0
  }
}
