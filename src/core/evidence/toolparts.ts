// Changes whose texts the tool parts tell by themselves: a new file with its whole content, and what was done to it right
// after, in the same message. No snapshot is read for them. They count only where nothing else can have written the file
// and where it is known that OpenCode does not format it.

import { type EvidenceBundle, evidenceLimits } from '../../contract/evidence.ts'
import { isWholeCreate } from '../../contract/evidence-paths.ts'
import type { Text } from './anchors.ts'
import type { Candidate } from './candidate.ts'
import type { DerivedTexts } from './texts/derived.ts'
import { chainOrderFault } from './chain.ts'
import { exactDigest, isPlainText } from './texts/exact.ts'
import { applyTransition, readTransitionAct } from './transition.ts'
import { upgradeProof } from './upgrade.ts'
import { groupBy } from './group-by.ts'
import type { Company } from './windows.ts'

export interface ExactRules {
  bundle: EvidenceBundle
  company: Company
  derived: DerivedTexts
  /** Whose change it is, and whether its history can be believed. */
  isBelieved: (candidate: Candidate) => boolean
}

export function markExactToolparts(
  candidates: readonly Candidate[],
  rules: ExactRules,
): Candidate[] {
  const exact = new Map<Candidate, Candidate>()
  for (const chain of chainsOf(candidates))
    for (const [from, to] of exactOf(chain, rules)) exact.set(from, to)
  return candidates.map((candidate) => exact.get(candidate) ?? candidate)
}

function chainsOf(candidates: readonly Candidate[]): Candidate[][] {
  const byPath = groupBy(
    candidates.filter(({ path }) => path !== null),
    ({ part, path }) => JSON.stringify([part.messageId, path]),
  )
  return [...byPath.values()]
}

function exactOf(chain: Candidate[], rules: ExactRules): [Candidate, Candidate][] {
  const [first] = chain
  const { bundle, company, isBelieved } = rules
  if (!first || !isWholeCreate(first.part, bundle.capability.formatted)) return []
  if (chainOrderFault(chain) || !chain.every(isBelieved)) return []
  return company.isClouded(first) ? [] : stepsFrom(chain, rules)
}

function stepsFrom(chain: Candidate[], { derived }: ExactRules): [Candidate, Candidate][] {
  const steps: [Candidate, Candidate][] = []
  let before: Text | null = null
  for (const candidate of chain) {
    const after = nextText(candidate, before, derived)
    if (!after || (before !== null && derived.take(after.text) !== null)) break
    const operation = before === null ? 'create' : 'modify'
    const proven = { operation, before, after, proof: 'toolpart-chain', snapshot: null } as const
    steps.push([candidate, { ...candidate, exact: true, change: upgradeProof(candidate, proven) }])
    before = after
  }
  return steps
}

function nextText(
  candidate: Candidate,
  before: Text | null,
  { mayCompare }: DerivedTexts,
): Text | null {
  const reading = readTransitionAct(candidate)
  const text = reading.ok ? applyTransition(reading.act, before?.text ?? null, mayCompare) : null
  if (text === null || text === before?.text || !isPlainText(text)) return null
  const digest = exactDigest(text)
  return digest.sizeBytes <= evidenceLimits.bytesPerFile ? { text, digest } : null
}
