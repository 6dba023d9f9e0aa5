// A fixed number of slots, given out in the order of asking. The sandbox host uses them to bound how many sandboxes
// boot at the same time, and the snapshots to bound how many are taken.

export interface Slots {
  /** undefined: none is free. */
  takeFree(): (() => void) | undefined
  /** Resolves with a function that gives the slot back; rejects if the signal fires first. */
  take(signal: AbortSignal): Promise<() => void>
}

export function createSlots(count: number): Slots {
  let free = count
  const waiting: (() => void)[] = []
  const release = () => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }
  const once = () => {
    let released = false
    return () => {
      if (released) return
      released = true
      release()
    }
  }
  const takeFree = () => {
    if (free === 0) return undefined
    free -= 1
    return once()
  }
  return {
    takeFree,
    take: (signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason as Error)
        const slot = takeFree()
        if (slot !== undefined) return resolve(slot)
        const leave = () => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal.reason as Error)
        }
        const enter = () => {
          signal.removeEventListener('abort', leave)
          resolve(once())
        }
        signal.addEventListener('abort', leave, { once: true })
        waiting.push(enter)
      }),
  }
}
