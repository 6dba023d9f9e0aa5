import type { Policy } from '../../contract/policy.ts'
import type { GateRules } from '../../contract/session.ts'
import type { Verdict } from './verdict.ts'

/** The session's own lists, on top of its policy. They can only tighten. */
export const withGateRules = (policy: Policy, gate: GateRules): Policy => ({ ...policy, gate })

/** What the lists say of a tool; null if it is on neither. */
export function gateSays({ gate }: Policy, tool: string | null): Verdict | null {
  if (!gate || tool === null) return null
  // The model sees "automation_complete" where the contract says "automation.complete".
  const has = (names: readonly string[]) =>
    names.some((name) => name === tool || name.replaceAll('.', '_') === tool)
  if (has(gate.deny))
    return {
      decision: 'deny',
      reason: `"${tool}" is on the session's deny list`,
      rule: 'gate:deny',
    }
  if (has(gate.ask))
    return { decision: 'ask', reason: `"${tool}" needs an answer from a person`, rule: 'gate:ask' }
  return null
}
