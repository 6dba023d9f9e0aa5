// Has a snapshot taken by a child process (main.ts), because the copy and the search would block the host. Whatever
// becomes of the child, the sandbox's processes move again afterwards, and an unfinished snapshot is removed.
// snapshots.ts calls it.

import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { AppError, errorCodeOf } from '../../src/contract/error.ts'
import { root } from '../binaries.ts'
import { endAllFreezes } from '../processes/freeze.ts'
import { killProcesses, stackMark, settledWithin } from '../processes/processes.ts'
import type { TakeOrder } from './take.ts'
import { removePrivateTree } from '../state/private-files.ts'

/** In the environment of whatever works on one snapshot: its folder. */
const snapshotMark = 'GANTRY_SNAPSHOT'

export interface TakerOptions {
  node: string
  /** The stack's. */
  mark: string
}

const Answer = z.union([
  z.object({ bytes: z.number() }),
  z.object({ code: z.string(), message: z.string() }),
])
type Answer = z.infer<typeof Answer>
const endMs = 5000

export async function runTaker(
  options: TakerOptions,
  order: TakeOrder,
  signal: AbortSignal,
): Promise<number> {
  const child = spawn(options.node, [join(root, 'local', 'snapshots', 'main.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      [stackMark]: options.mark,
      [snapshotMark]: order.target,
    },
  })
  child.stdin.on('error', () => undefined) // its death is seen below
  child.stdin.write(`${JSON.stringify(order)}\n`)
  const exited = exitOf(child)
  const stop = () => void endChild(child, exited)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const [output] = await Promise.all([text(child.stdout), exited])
    const answer = readAnswer(output)
    // It has died, and took with it which processes it had stopped.
    if (answer === undefined) endAllFreezes(order.wanted)
    signal.throwIfAborted()
    return bytesOf(answer)
  } catch (error) {
    await clearUnfinishedTake(order.target)
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function readAnswer(output: string): Answer | undefined {
  try {
    return Answer.parse(JSON.parse(output))
  } catch {
    return undefined
  }
}

function bytesOf(answer: Answer | undefined): number {
  if (answer === undefined)
    throw new AppError('sandbox_unavailable', 'Cannot take the snapshot: its process has died')
  if ('bytes' in answer) return answer.bytes
  const code = errorCodeOf(answer)
  if (code === undefined || code === 'internal') throw new Error(answer.message)
  throw new AppError(code, answer.message)
}

/** The end of its input is the order to end; it then lets the sandbox go and clears up. */
async function endChild(child: ChildProcess, exited: Promise<void>): Promise<void> {
  child.stdin?.end()
  if (!(await settledWithin(exited, endMs))) child.kill('SIGKILL')
}

/** Also if it could not be started: then it has no output. */
const exitOf = (child: ChildProcess) =>
  new Promise<void>((resolve) => {
    child.once('error', () => resolve())
    child.once('exit', () => resolve())
  })

/** Removes an unfinished snapshot, and first whoever still writes to it. */
export async function clearUnfinishedTake(target: string): Promise<void> {
  if (!existsSync(target)) return
  await killProcesses({ marks: [`${snapshotMark}=${target}`] })
  removePrivateTree(target)
}
