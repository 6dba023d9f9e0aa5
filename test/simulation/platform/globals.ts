import { writeLogsTo } from '../../../sandbox-agent/log.ts'
import type { Clock, Timer } from './clock.ts'
import type { Random } from './crypto.ts'
import { Process } from './process.ts'

const realTimeout = AbortSignal.timeout.bind(AbortSignal)

type Wait = (work: () => void, ms?: number) => unknown

/** What the agent takes from its platform, given by the world. */
export interface Platform {
  clock: Clock
  random: Random
  WebSocket: unknown
  fetch: unknown
}

/**
 * The agent is a program for Node: it takes time, sockets and requests from the platform's globals. While a world runs they
 * are the world's for whatever runs inside a simulated process, and the platform's for everybody else.
 */
export async function withPlatform<T>(platform: Platform, work: () => Promise<T>): Promise<T> {
  const { clock, random } = platform
  const real = {
    setTimeout: globalThis.setTimeout,
    setInterval: globalThis.setInterval,
    setImmediate: globalThis.setImmediate,
    clearTimeout: globalThis.clearTimeout,
    clearInterval: globalThis.clearInterval,
    WebSocket: globalThis.WebSocket,
    fetch: globalThis.fetch,
  }
  const { now } = Date
  const { random: realRandom } = Math
  const timeout = (ms: number) => realTimeout(ms)
  const wait =
    (other: Wait, isRepeated: boolean): Wait =>
    (callback, ms = 0) => {
      const owner = Process.current
      if (!owner) return other(callback, ms)
      const run = () => owner.run(callback)
      return handle(clock.after(owner, ms, run, isRepeated ? ms : null))
    }
  const clear = (other: (timer: never) => void) => (timer: unknown) => {
    if (isHandle(timer)) clock.cancel(timer.timer)
    else other(timer as never)
  }
  const atOnce = (callback: () => void) => {
    const owner = Process.current
    if (!owner) return real.setImmediate(callback)
    return handle(clock.after(owner, 0, () => owner.run(callback)))
  }
  Object.assign(globalThis, {
    setTimeout: wait(real.setTimeout as unknown as Wait, false),
    setInterval: wait(real.setInterval as unknown as Wait, true),
    setImmediate: atOnce,
    clearTimeout: clear(real.clearTimeout),
    clearInterval: clear(real.clearInterval),
    WebSocket: platform.WebSocket,
    fetch: platform.fetch,
  })
  Date.now = () => clock.now
  Math.random = random
  AbortSignal.timeout = (ms) => {
    const ends = new AbortController()
    if (Process.current) globalThis.setTimeout(() => ends.abort(new Error('Too late')), ms)
    return ends.signal
  }
  writeLogsTo(() => undefined)
  try {
    return await work()
  } finally {
    Object.assign(globalThis, real)
    Date.now = now
    Math.random = realRandom
    AbortSignal.timeout = timeout
    writeLogsTo((line) => void process.stderr.write(line))
  }
}

interface Handle {
  timer: Timer
  unref(): Handle
}

function handle(timer: Timer): Handle {
  const made: Handle = { timer, unref: () => made }
  return made
}

const isHandle = (value: unknown): value is Handle =>
  typeof value === 'object' && value !== null && 'timer' in value && 'unref' in value

const { setImmediate: soon } = globalThis

/** Until nothing more can happen by itself: all that is left waits for the clock or the network. */
export const quiet = (): Promise<void> => new Promise((resolve) => soon(resolve))
