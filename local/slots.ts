/** A fixed number of places, given out in the order of asking. */
export interface Slots {
  /** undefined: none is free, or others wait. */
  takeFree(): (() => void) | undefined
  /** Resolves with the way to give the place back; rejects when the signal fires first. */
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
        const place = takeFree()
        if (place !== undefined) return resolve(place)
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
