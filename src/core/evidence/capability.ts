// What this session's database and store can show at all. A yes is no proof: it only allows to look for one.

import type { DiagnosticCode, EvidenceBundle } from '../../contract/evidence.ts'
import { hashText } from '../hash.ts'
import type { ProofDelivery } from './candidate.ts'

/** Of the history alone: without it not even tool parts can be believed. */
export function historyCapabilityFault({
  capability,
  failures,
}: EvidenceBundle): DiagnosticCode | null {
  if (!capability.schema.supported) return 'sqlite-schema-unsupported'
  if (capability.writeAheadFile === 'unreadable') return 'history-unreadable'
  // A tool that was left out may have written any file.
  return failures.some(({ code }) => code === 'part-limit') ? 'part-limit' : null
}

export function capabilityFault(
  bundle: EvidenceBundle,
  delivery: ProofDelivery,
): DiagnosticCode | null {
  const { session, store, frozen } = bundle.capability
  const history = historyCapabilityFault(bundle)
  if (history) return history
  if (!session || session.vcs !== 'git') return 'session-identity-missing'
  if (!isSameFolder(session.worktree, delivery.workspaceRoot)) return 'workspace-mismatch'
  if (store.state === 'missing') return 'snapshot-store-missing'
  if (store.state === 'misplaced') return 'snapshot-store-misplaced'
  if (store.state === 'unsupported') return 'snapshot-store-unsupported'
  if (store.fingerprint === null) return 'unsupported-snapshot-shape'
  if (frozen) return 'snapshot-frozen'
  const isPaired = bundle.windows.some(({ to }) => to !== null)
  return isPaired ? null : 'snapshot-window-missing'
}

const isSameFolder = (a: string, b: string) => withoutSlash(a) === withoutSlash(b)
const withoutSlash = (path: string) => path.replace(/\/+$/, '')

/** Kept with each proof: if OpenCode changes its shape, it can be told which proofs were read from the old one. */
export const capabilityFingerprint = ({ capability }: EvidenceBundle): string =>
  hashText(JSON.stringify([capability.schema.fingerprint, capability.store.fingerprint]))
