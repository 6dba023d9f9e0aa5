// The states of one change on its way to a proof. `upgrade` takes a verified transition and nothing else, so that no state
// can be left out:
//   candidate -> snapshot-requested -> snapshot-matched -> transition-verified -> upgraded
// and from each of them to skipped, which keeps the original.

import type { ProvenChange } from '../../contract/change.ts'
import type { DiagnosticCode, EvidenceWindow } from '../../contract/evidence.ts'
import type { Anchor } from './anchors.ts'
import type { Candidate } from './candidate.ts'
import type { Link } from './chain.ts'
import { type Proven, upgradeProof } from './upgrade.ts'

export interface Requested {
  state: 'snapshot-requested'
  candidate: Candidate
  window: EvidenceWindow
}
/** Of all changes of one path in one window. */
export interface Matched {
  state: 'snapshot-matched'
  window: EvidenceWindow
  anchor: Anchor
  links: [Link, ...Link[]]
}
export interface Verified {
  state: 'transition-verified'
  candidate: Candidate
  window: EvidenceWindow
  proven: Proven
  remark: DiagnosticCode | null
}
export interface Upgraded {
  state: 'upgraded'
  candidate: Candidate
  window: EvidenceWindow
  change: ProvenChange
  proof: Proven['proof']
  remark: DiagnosticCode | null
  /** false: this mode only counts it. */
  applied: boolean
}
export interface Skipped {
  state: 'skipped'
  candidate: Candidate
  window: EvidenceWindow | null
  reason: DiagnosticCode
}
export type Ended = Upgraded | Skipped

export const skip = (
  candidate: Candidate,
  window: EvidenceWindow | null,
  reason: DiagnosticCode,
): Skipped => ({ state: 'skipped', candidate, window, reason })

export const upgradeOne = (verified: Verified, applied: boolean): Upgraded => ({
  state: 'upgraded',
  candidate: verified.candidate,
  window: verified.window,
  change: upgradeProof(verified.candidate, verified.proven),
  proof: verified.proven.proof,
  remark: verified.remark,
  applied,
})
