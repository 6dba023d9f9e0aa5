import type { Risk } from '../../../../contract/permission.ts'
import type { Arg } from './arg.ts'

/** A risk, and what in the command makes it one. */
export interface Finding {
  risk: Risk
  why: string
}

export const ambiguous = (why: string): Finding => ({ risk: 'ambiguous', why })
export const destructive = (why: string): Finding => ({ risk: 'destructive', why })
export const privileged = (why: string): Finding => ({ risk: 'privileged', why })
export const external = (why: string): Finding => ({ risk: 'external', why })

/** What a command runs in turn. */
export type Nested =
  /** fed: it gets more arguments, which only the run will show. */
  | { kind: 'command'; words: readonly Arg[]; fed: boolean; listed?: true }
  | { kind: 'script'; text: string }

/** What arrives on a command's standard input, if it can be told. */
export type Stdin = { kind: 'none' } | { kind: 'text'; text: string } | { kind: 'unknown' }
