// The proof engine. It turns a bundle into the changes of a delivery, and gives a change its two texts only when, and
// exactly when, the snapshots and the tool's own input prove them. Everything else stays as it was, with the reason.
// It is a pure function; the session calls it for every collect, and the dry run for a fixture.
// states.ts has the states that a change goes through.

import type {
  Diagnostic,
  ProofDecision,
  ProofStatistics,
  ProvenChange,
} from '../../contract/change.ts'
import type {
  DiagnosticCode,
  EvidenceBundle,
  EvidencePart,
  ProofMode,
} from '../../contract/evidence.ts'
import type { Place } from '../../contract/evidence-paths.ts'
import { Anchors } from './anchors.ts'
import { attributionFault, isWholeAttribution, type SeenParts } from './attribution.ts'
import { type Candidate, candidatesOf, candidatePlace, type ProofDelivery } from './candidate.ts'
import { capabilityFault, historyCapabilityFault, capabilityFingerprint } from './capability.ts'
import { type Link, walkChain } from './chain.ts'
import { diagnose } from './diagnose.ts'
import {
  type Ended,
  type Matched,
  type Requested,
  skip,
  type Skipped,
  type Upgraded,
  upgradeOne,
  type Verified,
} from './states.ts'
import { proofStatistics } from './statistics.ts'
import { markExactToolparts } from './toolparts.ts'
import { readTransitionAct, verifyTransition } from './transition.ts'
import { upgradeHolds, type Proven } from './upgrade.ts'
import { Company, matchWindow, ToldSteps, type WindowMatch, Windows } from './windows.ts'
import { DerivedTexts } from './texts/derived.ts'
import { groupBy } from './group-by.ts'
import { mismatchWarning } from './warnings.ts'

export interface ProofInput {
  bundle: EvidenceBundle
  delivery: ProofDelivery
  mode: ProofMode
  /** Of a text that is in neither tree and in no tool part, and would be kept. Absent: none of them does. */
  holdsSecret?: (text: string) => boolean
}
export interface ProofResult {
  /** What is imported. */
  changes: ProvenChange[]
  decisions: ProofDecision[]
  diagnostics: Diagnostic[]
  statistics: ProofStatistics
}

export function proveChanges(input: ProofInput): ProofResult {
  const { bundle, mode } = input
  const engine = new Engine(input)
  const ends = mode === 'off' ? engine.keepAll() : engine.prove()
  const changes = ends.map((end) =>
    end.state === 'upgraded' && end.applied ? end.change : engine.original(end),
  )
  const decisions = ends.map(decisionOf)
  return {
    changes,
    decisions,
    diagnostics: diagnose({ bundle, mode, place: engine.place, ends }),
    statistics: proofStatistics({ mode, bundle, decisions, changes }),
  }
}

function decisionOf(end: Ended): ProofDecision {
  const { part, key, change } = end.candidate
  const decided = {
    sourceImportKey: key,
    partId: part.id,
    path: change.event.relativePath,
    windowId: end.window?.id ?? null,
  }
  return end.state === 'upgraded'
    ? { ...decided, type: 'upgraded', proof: end.proof, applied: end.applied }
    : { ...decided, type: 'skipped', reason: end.reason }
}

class Engine {
  readonly place: Place
  readonly #input: ProofInput
  readonly #candidates: Candidate[]
  readonly #company: Company
  readonly #seen: SeenParts
  readonly #steps: ToldSteps
  readonly #derived: DerivedTexts
  readonly #byKey: ReadonlyMap<string, Candidate[]>
  readonly #faults = new Map<EvidencePart, DiagnosticCode | null>()

  constructor(input: ProofInput) {
    const { bundle, delivery } = input
    this.#input = input
    this.#derived = new DerivedTexts(input.holdsSecret)
    this.place = candidatePlace(bundle, delivery)
    this.#company = new Company(bundle, this.place, delivery.seenParts)
    this.#steps = new ToldSteps(delivery.seenSteps)
    this.#seen = groupBy(delivery.seenParts, ({ id }) => id)
    const history = historyCapabilityFault(bundle)
    this.#candidates = markExactToolparts(candidatesOf(bundle, delivery), {
      bundle,
      company: this.#company,
      derived: this.#derived,
      isBelieved: (candidate) =>
        history === null &&
        isWholeAttribution(candidate, this.#seen) &&
        this.#attributionFault(candidate) === null,
    })
    this.#byKey = groupBy(this.#candidates, ({ key }) => key)
  }

  /** Off: no window, no text and no read is looked at. */
  keepAll(): Skipped[] {
    return this.#candidates.map((candidate) =>
      skip(candidate, null, candidate.exact ? 'already-exact' : 'feature-flag-off'),
    )
  }

  /** A part that is not what came over the link is shown as such, in every mode. */
  original({ candidate }: Ended): ProvenChange {
    const { change } = candidate
    if (this.#attributionFault(candidate) !== 'evidence-mismatch') return change
    const { event } = change
    return { ...change, event: { ...event, warnings: [...event.warnings, mismatchWarning] } }
  }

  prove(): Ended[] {
    const { bundle, delivery } = this.#input
    const anchors = new Anchors(bundle)
    const capability = capabilityFault(bundle, delivery)
    const windows = new Windows(bundle.windows)
    const begun = this.#candidates.map((candidate) =>
      this.#request(candidate, matchWindow(candidate, windows), capability),
    )
    const ends = new Map<Candidate, Ended>()
    for (const group of groupsOf(begun))
      for (const end of this.#proveGroup(group, anchors)) ends.set(end.candidate, end)
    return withoutFrozen(this.#candidates.flatMap((candidate) => ends.get(candidate) ?? []))
  }

  #request(
    candidate: Candidate,
    match: WindowMatch,
    capability: DiagnosticCode | null,
  ): Requested | Skipped {
    const window = match.ok ? match.window : null
    if (candidate.exact) return skip(candidate, window, 'already-exact')
    const fault = this.#nameFault(candidate) ?? this.#attributionFault(candidate) ?? capability
    if (fault) return skip(candidate, window, fault)
    if (!match.ok) return skip(candidate, null, match.reason)
    if (!this.#steps.agrees(match.window)) return skip(candidate, window, 'evidence-mismatch')
    return this.#company.isClouded(candidate)
      ? skip(candidate, match.window, 'opaque-tool-in-window')
      : { state: 'snapshot-requested', candidate, window: match.window }
  }

  #nameFault({ path, key }: Candidate): DiagnosticCode | null {
    if (path === null) return 'path-unsafe'
    return (this.#byKey.get(key)?.length ?? 0) > 1 ? 'duplicate-import-key' : null
  }

  #attributionFault(candidate: Candidate): DiagnosticCode | null {
    const known = this.#faults.get(candidate.part)
    if (known !== undefined) return known
    const fault = attributionFault(candidate, this.#input.delivery, this.#seen)
    this.#faults.set(candidate.part, fault)
    return fault
  }

  #proveGroup(group: Begun[], anchors: Anchors): Ended[] {
    const requested = group.filter((it) => it.state === 'snapshot-requested')
    const skipped = group.filter((it) => it.state === 'skipped')
    const skipAll = (reason: DiagnosticCode) =>
      requested.map(({ candidate, window }) => skip(candidate, window, reason))
    if (requested.length === 0) return skipped
    const matched = this.#match(group, requested, anchors)
    if (typeof matched === 'string') return [...skipped, ...skipAll(matched)]
    const verified = this.#verify(matched)
    if (typeof verified === 'string') return [...skipped, ...skipAll(verified)]
    const { mode } = this.#input
    if (requested.length > 1 && mode === 'single-change')
      return [...skipped, ...skipAll('multi-change-group')]
    return [
      ...skipped,
      ...(upgradeAll(requested, verified, mode) ?? skipAll('postcondition-failed')),
    ]
  }

  /** A change of the same path that may not be believed breaks the chain: nobody knows what it did. */
  #match(group: Begun[], requested: Requested[], anchors: Anchors): Matched | DiagnosticCode {
    if (group.some((it) => it.state === 'skipped' && it.reason !== 'already-exact'))
      return 'path-chain-ambiguous'
    const links: Link[] = []
    for (const { candidate } of group) {
      const reading = readTransitionAct(candidate)
      if (!reading.ok) return reading.reason
      links.push({ candidate, act: reading.act })
    }
    const [asked] = requested
    const [first, ...more] = links
    if (!asked || !first) return 'no-file-anchor'
    const { window, candidate } = asked
    const found = anchors.find(window, candidate.path ?? '', candidate.part.id)
    if (!found.ok) return found.reason
    return { state: 'snapshot-matched', window, anchor: found.anchor, links: [first, ...more] }
  }

  #verify({ window, anchor, links }: Matched): Verified[] | DiagnosticCode {
    const { from, to } = window
    const snapshot = {
      id: `${from ?? ''}..${to ?? ''}`,
      shape: capabilityFingerprint(this.#input.bundle),
    }
    const verified = (candidate: Candidate, proven: Omit<Proven, 'snapshot'>): Verified => ({
      state: 'transition-verified',
      candidate,
      window,
      proven: { ...proven, snapshot },
      remark: null,
    })
    if (links.length === 1) {
      const [{ act, candidate }] = links
      const verdict = verifyTransition(act, anchor, this.#derived.mayCompare)
      if (!verdict.ok) return verdict.reason
      const { operation, remark } = verdict
      return [
        { ...verified(candidate, { operation, ...anchor, proof: 'opencode-snapshot' }), remark },
      ]
    }
    const walk = walkChain(links, anchor, this.#derived)
    if (!walk.ok) return walk.reason
    return walk.steps.map(({ candidate, before, after, proof }) =>
      verified(candidate, { operation: before ? 'modify' : 'create', before, after, proof }),
    )
  }
}

type Begun = Requested | Skipped

/** All changes of one path in one window. */
const groupsOf = (begun: readonly Begun[]): Begun[][] => [
  ...groupBy(begun, ({ candidate, window }) =>
    JSON.stringify([window?.id ?? candidate.key, candidate.path]),
  ).values(),
]

/** All of them, or null: then none. */
function upgradeAll(
  requested: Requested[],
  verified: Verified[],
  mode: ProofMode,
): Upgraded[] | null {
  const upgraded = verified.map((it) => upgradeOne(it, mode !== 'shadow'))
  const isWhole =
    upgraded.length === requested.length &&
    upgraded.every(({ candidate, change }) => upgradeHolds(candidate.change, change))
  return isWhole ? upgraded : null
}

/** Reasons for which a tool may say that it is done while the trees are equal. */
const standstill: readonly DiagnosticCode[] = ['unchanged', 'not-captured', 'path-unsafe']
/** What looks like another fault, and is this one. */
const symptoms: readonly DiagnosticCode[] = [
  ...(['no-file-anchor', 'toolpart-after-mismatch', 'operation-mismatch'] as const),
  ...(['edit-ambiguous', 'patch-ambiguous'] as const),
]

/**
 * A tool has changed a file and the trees are equal: the store has stopped. Everything that begins from that tree is not
 * believed either, for what was changed meanwhile would look like part of the step in which the store goes on.
 */
function withoutFrozen(ends: Ended[]): Ended[] {
  const stuck = new Set(ends.flatMap((end) => stuckTree(end) ?? []))
  return ends.map((end) => {
    const isStuck = end.window?.from != null && stuck.has(end.window.from)
    const isOpen = end.state === 'upgraded' || symptoms.includes(end.reason)
    return isStuck && isOpen ? skip(end.candidate, end.window, 'snapshot-frozen') : end
  })
}

function stuckTree(end: Ended): string | null {
  const { window } = end
  const isDone = end.state === 'skipped' && standstill.includes(end.reason)
  return window && window.from === window.to && !isDone ? window.to : null
}
