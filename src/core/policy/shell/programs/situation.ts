import type { Surroundings } from '../words/arg.ts'
import type { Stdin } from '../words/finding.ts'

/** Where a command stands, and what it is given. */
export interface Situation {
  around: Surroundings
  isInside: (path: string) => boolean
  stdin: Stdin
  /** What it prints becomes arguments of another command. */
  captured: boolean
  /** It gets arguments that nobody sees. */
  fed: boolean
  /** What it gets are names of files of the workspace. */
  listed: boolean
  /** A name that the script has given a meaning. */
  isFunction: (name: string) => boolean
}
