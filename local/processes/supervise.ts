// Watches a part and says when it has died although nobody wanted that. It does not start the part again by itself:
// whoever supervises decides, and `start` launches it with the same settings. The stack uses it for its three parts.

import { type Part, PartFailed } from './part.ts'

/** A part that can be stopped and started again with the same settings. */
export interface Supervised {
  name: string
  logFile: string
  pid(): number
  running(): boolean
  /** An end that is wanted: not reported as a death. */
  kill(signal: NodeJS.Signals): void
  stop: () => Promise<void>
  /** Does nothing while it runs. */
  start(): Promise<void>
}

export async function supervise(
  launch: () => Promise<Part>,
  onDeath: (error: PartFailed) => void,
): Promise<Supervised> {
  let wanted = false
  const watch = (part: Part): Part => {
    wanted = true
    part.onEnd(() => {
      if (wanted && part === current) onDeath(new PartFailed(part, `has died (${part.ended()})`))
    })
    return part
  }
  let current = watch(await launch())
  return {
    name: current.name,
    logFile: current.logFile,
    pid: () => current.pid,
    running: () => current.ended() === undefined,
    kill: (signal) => {
      wanted = false
      current.kill(signal)
    },
    stop: () => {
      wanted = false
      return current.stop()
    },
    start: async () => {
      if (current.ended() === undefined && wanted) return
      await current.stop() // waits for its end
      current = watch(await launch())
    },
  }
}
