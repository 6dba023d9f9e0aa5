import type { Kit } from '../kit.ts'

export interface Case {
  name: string
  /** Of SPEC.md. */
  rule: string
  /** Says in a few words what was seen; throws if it is not what the rule says. */
  run: (kit: Kit) => Promise<string>
}

/** Arguments that are refused without asking the sandbox: settled at once, nothing is done. */
export const outside = { folder: '../outside' }
