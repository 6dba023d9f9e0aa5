import type { Surroundings } from './arg.ts'
import { isSecretVariable } from './assignments.ts'
import type { Finding, Stdin } from './finding.ts'
import type { Segment } from './segment.ts'
import type { Variables } from './variables.ts'

/** What a command inherits from the place where it stands in the script. */
export interface Flow {
  /** Where it may be running: more than one if a `cd` may have failed. */
  folders: readonly string[]
  /** How many scripts and wrappers it is inside of. */
  depth: number
  inLoop: boolean
  /** A command that fails ends the script. */
  strict: boolean
  captured: boolean
  /** What is piped into it are names of files of the workspace. */
  listed: boolean
  stdin: Stdin
  /** Here-documents that the parser has not seen, by position. */
  bodies: ReadonlyMap<number, string>
  /** What the script sets itself, and what of it is set for certain by now. */
  variables: Variables | null
  assigned: ReadonlySet<string>
}

export const noStdin: Stdin = { kind: 'none' }
/** Of a script that nothing is around. */
export const firstFlow: Flow = {
  folders: [],
  depth: 0,
  inLoop: false,
  strict: false,
  captured: false,
  listed: false,
  stdin: noStdin,
  bodies: new Map(),
  variables: null,
  assigned: new Set(),
}

/** What the script does not set itself is the environment's, and is taken for a number where one is wanted; no secret is one. */
export const isFlowNumber =
  ({ variables }: Flow) =>
  (name: string): boolean =>
    variables?.has(name) ? variables.isNumber(name) : !isSecretVariable(name)

/** Where the script goes on, after a success and after a failure. */
export interface Outcome {
  done: readonly string[]
  failed: readonly string[]
}

export const unchanged = ({ folders }: Flow): Outcome => ({ done: folders, failed: folders })

export const union = (...lists: readonly (readonly string[])[]): readonly string[] =>
  lists.length === 1 ? (lists[0] ?? []) : [...new Set(lists.flat())]

/** What the parts of a reading share. */
export interface Reading {
  home: string | undefined
  isInside: (path: string) => boolean
  around: (flow: Flow) => Surroundings
  /** Every folder that a `cd` may have led to: `cd -` returns to one of them. */
  visited: Set<string>
  add: (segment: Segment) => void
  /** Reads a script inside the script. */
  script: (text: string, flow: Flow) => readonly string[]
}

export const maxDepth = 12
export const maxSegments = 300
export const maxFolders = 20
export const maxWords = 1000
export const maxPaths = 1000

export const plainSegment = (text: string, findings: readonly Finding[]): Segment => ({
  text,
  category: 'shell',
  findings,
  paths: [],
  hosts: [],
  secret: null,
})
