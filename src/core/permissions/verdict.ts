import type { Decision } from '../../contract/permission.ts'

export interface Verdict {
  decision: Decision
  reason: string
  rule: string
}

const strictness: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 }

export const isStricter = (one: Decision, other: Decision): boolean =>
  strictness[one] > strictness[other]

export const tighten = <V extends Verdict>(verdict: V, other: V | null): V =>
  other && isStricter(other.decision, verdict.decision) ? other : verdict
