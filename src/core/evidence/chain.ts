// Several changes of one path in one window. The trees show the first text and the last; what was between is told
// backwards, step by step, and only if each step leads back to exactly one text and the first one is reached.

import type { Proof } from '../../contract/change.ts'
import type { DiagnosticCode } from '../../contract/evidence.ts'
import type { Anchor, Text } from './anchors.ts'
import type { Candidate } from './candidate.ts'
import type { DerivedTexts } from './texts/derived.ts'
import { exactDigest } from './texts/exact.ts'
import { type Act, reverseTransition } from './transition.ts'

export interface Link {
  candidate: Candidate
  act: Act
}
export interface Step {
  candidate: Candidate
  before: Text | null
  after: Text
  proof: Exclude<Proof, 'metadata-only-fallback' | 'toolpart-chain'>
}
export type ChainWalk = { ok: true; steps: Step[] } | { ok: false; reason: DiagnosticCode }
const no = (reason: DiagnosticCode) => ({ ok: false, reason }) as const

/** `links` are in order. The steps are those of changes that were not exact before. */
export function walkChain(
  links: readonly Link[],
  anchor: Anchor,
  derived: DerivedTexts,
): ChainWalk {
  const order = chainOrderFault(links.map(({ candidate }) => candidate))
  if (order) return no(order)
  if (anchor.after === null) return no('no-after-anchor')
  const steps: Step[] = []
  let cursor: Text | null = anchor.after
  for (const [at, link] of [...links.entries()].toReversed()) {
    if (cursor === null) return no('path-chain-ambiguous')
    const back = stepBack(link, cursor, at === 0 ? anchor : null, derived)
    if (!back) return no('path-chain-ambiguous')
    const fault = at > 0 && back.before ? derived.take(back.before.text) : null
    if (fault) return no(fault)
    if (!link.candidate.exact) steps.unshift({ ...back, candidate: link.candidate, after: cursor })
    cursor = back.before
  }
  const isReached = cursor?.text === anchor.before?.text
  return isReached ? { ok: true, steps } : no('path-chain-boundary-mismatch')
}

/** One message, one session, different keys, and an order that the times do not contradict. */
export function chainOrderFault(chain: readonly Candidate[]): DiagnosticCode | null {
  const distinct = (of: (candidate: Candidate) => unknown) => new Set(chain.map(of)).size
  if (distinct(({ key }) => key) !== chain.length) return 'duplicate-import-key'
  if (distinct(({ part }) => part.messageId) > 1) return 'path-chain-ambiguous'
  if (distinct(({ part }) => part.order) !== chain.length) return 'unstable-order'
  const ends = chain.map(({ part }) => part.endedAt)
  const isContradicted = ends.some((end, at) => (ends[at - 1] ?? 0) > (end ?? Infinity))
  return isContradicted ? 'unstable-order' : null
}

type Back = Pick<Step, 'before' | 'proof'>

/** `oldest`: the anchor, if this is the first step; only there may a whole new text stand. */
function stepBack(
  { candidate, act }: Link,
  cursor: Text,
  oldest: Anchor | null,
  { mayCompare }: DerivedTexts,
): Back | null {
  if (candidate.exact) return stepBackExact(candidate, cursor)
  if (act.type === 'edit' || act.type === 'update') {
    const text = reverseTransition(act, cursor.text, mayCompare)
    const proof = act.type === 'edit' ? 'inverse-edit-chain' : 'inverse-apply-patch-chain'
    return text === null ? null : { before: { text, digest: exactDigest(text) }, proof }
  }
  return oldest ? stepBackWhole(act, cursor, oldest) : null
}

function stepBackExact({ change }: Candidate, cursor: Text): Back | null {
  if (change.afterContent !== cursor.text) return null
  const { beforeContent: text } = change
  return {
    before: text === null ? null : { text, digest: exactDigest(text) },
    proof: 'opencode-snapshot',
  }
}

function stepBackWhole(act: Act, cursor: Text, { before }: Anchor): Back | null {
  const isWhole = act.type === 'write' || act.type === 'add'
  if (!isWhole || act.content !== cursor.text || before?.text === cursor.text) return null
  if (act.type === 'add' && before !== null) return null
  if (act.type === 'write' && act.existed !== null && act.existed !== (before !== null)) return null
  return { before, proof: 'opencode-snapshot' }
}
