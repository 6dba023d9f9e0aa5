import { readlinkSync } from 'node:fs'
import type { Enforcement } from '../../../src/contract/operation.ts'
import type { Owner } from '../../workspace/folder.ts'
import { log } from '../../log.ts'
import { runBounded } from './bounded.ts'
import { type Enclosure, encloseRun } from './enclosure.ts'

export interface Held {
  enclosure: Enclosure
  enforces: Enforcement[]
}

const probeMs = 5000
const mebibyte = 1024 * 1024

/** In the walls: its network, more memory than it may have, and at last more processes, at which the shell gives up. */
const script = `
echo entered
readlink /proc/self/ns/net
sed -n '3,$s/:.*//p' /proc/net/dev
dd if=/dev/zero of=/dev/null bs=${64 * mebibyte} count=1 2>/dev/null || echo memory-held
i=0; while [ $i -lt 12 ]; do sleep 9 & i=$((i+1)); done 2>/dev/null
echo processes-free
`

/** Tries once what the machine really holds a process to, in the strongest enclosure that it allows. */
export async function probeEnforcement(
  owner: Owner | undefined,
  environment: Record<string, string>,
): Promise<Held> {
  if (process.platform !== 'linux') return { enclosure: 'none', enforces: ['time', 'output'] }
  const isRoot = process.getuid?.() === 0
  const enclosures: Enclosure[] = isRoot && owner ? ['user', 'root', 'none'] : ['user', 'none']
  for (const enclosure of enclosures) {
    const enforces = await tryEnclosure(enclosure, owner, environment)
    if (enforces) return { enclosure, enforces }
  }
  log('no limits can be set', { reason: 'prlimit cannot be run' })
  return { enclosure: 'none', enforces: ['time', 'output', 'real-path'] }
}

/** undefined: it cannot be entered here. */
async function tryEnclosure(
  enclosure: Enclosure,
  owner: Owner | undefined,
  environment: Record<string, string>,
  triesLeft = 1,
): Promise<Enforcement[] | undefined> {
  const limits = { memoryBytes: 16 * mebibyte, processes: 4 }
  const line = encloseRun(enclosure, owner, { network: false, limits }, script)
  const run = await runBounded(line.file, line.args, {
    environment,
    owner: line.owner,
    deadline: Date.now() + probeMs,
  }).catch(() => undefined)
  const lines = run?.stdout.toString('utf8').split('\n') ?? []
  // Killed by somebody who cleans up after an OpenCode that died: that says nothing about the machine.
  if (run?.code === null && triesLeft > 0)
    return tryEnclosure(enclosure, owner, environment, triesLeft - 1)
  if (lines[0] !== 'entered') return undefined
  return enforcedBy(enclosure, lines)
}

function enforcedBy(enclosure: Enclosure, lines: string[]): Enforcement[] {
  const [, network, ...rest] = lines.map((line) => line.trim())
  const interfaces = rest
    .slice(0, -1)
    .filter((line) => !/^(memory-held|processes-free|)$/.test(line))
  const isAlone =
    enclosure !== 'none' &&
    network !== readlinkSync('/proc/self/ns/net') &&
    interfaces.every((name) => name === 'lo')
  // Where the kernel does not count (root's processes), those of one pid namespace are watched and killed at once.
  const isCounted = !rest.includes('processes-free') || enclosure !== 'none'
  return [
    'time',
    'output',
    'real-path',
    ...(isAlone ? (['network'] as const) : []),
    ...(rest.includes('memory-held') ? (['memory'] as const) : []),
    ...(isCounted ? (['processes'] as const) : []),
  ]
}
