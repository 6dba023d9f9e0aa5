import { readFileSync } from 'node:fs'

/** A tick of the clock by which Linux counts, in seconds; it is the same on all its machines. */
const tickSeconds = 0.01

/**
 * Processor time of the children that have ended, and of all they have waited for, in seconds. What it grows by when a
 * child ends is that child's. Only Linux tells it; elsewhere it is undefined.
 */
export function secondsOfEndedChildren(): number | undefined {
  try {
    const line = readFileSync('/proc/self/stat', 'utf8')
    // The name, in brackets, may hold blanks. After it come the state and then the numbers.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    const [user, system] = [Number(fields[13]), Number(fields[14])]
    return (user + system) * tickSeconds
  } catch {
    return undefined
  }
}
