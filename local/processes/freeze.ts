// Makes all processes of a sandbox stand still, so that its files can be copied as of one moment. `freeze` returns the
// function that lets them go on; if not all stand still, it lets go and tries again, at most three times: a process
// that is stopped between vfork and exec holds its parent in a wait that no signal ends. Snapshots and the sandbox
// itself call it.

import { findProcesses, isProcessStopped, signalProcess, sleep, type Wanted } from './processes.ts'

const attempts = 3

export async function freeze(wanted: Wanted, attemptMs = 2000): Promise<() => void> {
  // What somebody else has stopped, such as a shell's job, stays stopped afterwards.
  const stopped = new Set(findProcesses(wanted).filter(isProcessStopped))
  const frozen = new Set<number>()
  const thaw = () => {
    for (const pid of frozen) signalProcess(pid, 'SIGCONT')
  }
  try {
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      if (await stopAll(wanted, stopped, frozen, attemptMs)) return thaw
      thaw()
      await sleep(50)
    }
  } catch (error) {
    thaw()
    throw error
  }
  throw new Error(`The sandbox's processes did not stand still within ${attempts * attemptMs} ms`)
}

/** Whether two looks in a row found all of them stopped: one may fork between a look and its signal. */
async function stopAll(
  wanted: Wanted,
  stopped: ReadonlySet<number>,
  frozen: Set<number>,
  limitMs: number,
): Promise<boolean> {
  const until = Date.now() + limitMs
  for (let stillLooks = 0; stillLooks < 2;) {
    const moving = findProcesses(wanted).filter((pid) => !isProcessStopped(pid))
    stillLooks = moving.length === 0 ? stillLooks + 1 : 0
    for (const pid of moving) {
      if (!stopped.has(pid)) frozen.add(pid)
      signalProcess(pid, 'SIGSTOP')
    }
    if (Date.now() > until) return false
    if (moving.length > 0) await sleep(2)
  }
  return true
}

/** For when whoever froze them has died: it took with it which of them it had stopped. */
export function endAllFreezes(wanted: Wanted): void {
  for (const pid of findProcesses(wanted)) signalProcess(pid, 'SIGCONT')
}

export const isStill = (wanted: Wanted): boolean => findProcesses(wanted).every(isProcessStopped)
