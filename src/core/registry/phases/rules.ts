// The rules of phases, pure. Presence of artifacts decides, and nothing else: not what they say, not whether they are
// stale or approved. They are not transitive: with only `tasks` there, apply-progress is ready and explore comes next.

import {
  Phase,
  topicKey,
  type ChangeStatus,
  type PhaseReadiness,
  type Workflow,
} from '../../../contract/phase.ts'

export const phases: readonly Phase[] = Phase.options

const prerequisites: Record<Phase, readonly Phase[]> = {
  explore: [],
  proposal: ['explore'],
  spec: ['proposal'],
  design: ['proposal', 'spec'],
  tasks: ['proposal', 'spec', 'design'],
  'apply-progress': ['tasks'],
  verify: ['apply-progress'],
  archive: ['verify'],
}

/** Its place in the order. A phase can be made stale by every phase before it. */
export const positionOf = (phase: Phase): number => phases.indexOf(phase)

export const workflowOf = (change: string): Workflow => ({
  change,
  phases: phases.map((phase) => ({
    phase,
    topicKey: topicKey(change, phase),
    requires: [...prerequisites[phase]],
  })),
})

type Present = ReadonlySet<Phase>

export const missingFor = (phase: Phase, present: Present): Phase[] =>
  prerequisites[phase].filter((one) => !present.has(one))

/** The first in order that is missing and ready. As long as one is missing there is one: the first missing of all. */
export const nextPhase = (present: Present): Phase | null =>
  phases.find((phase) => !present.has(phase) && missingFor(phase, present).length === 0) ?? null

interface Place {
  project: string
  change: string
}

export function phaseReadiness(
  { project, change }: Place,
  phase: Phase,
  present: Present,
): PhaseReadiness {
  const keys = (some: readonly Phase[]) => some.map((one) => topicKey(change, one))
  const missing = missingFor(phase, present)
  return {
    ...{ project, change, phase },
    topicKey: topicKey(change, phase),
    ready: missing.length === 0,
    present: present.has(phase),
    satisfied: keys(prerequisites[phase].filter((one) => present.has(one))),
    missing: keys(missing),
    hint: readinessHint(change, phase, present),
  }
}

function readinessHint(change: string, phase: Phase, present: Present): string {
  const [first] = missingFor(phase, present)
  if (first === undefined)
    return present.has(phase)
      ? `${topicKey(change, phase)} is there; saving it again makes its next revision`
      : `Work on it, then save ${topicKey(change, phase)}`
  const next = nextPhase(present) ?? first
  return `Not ready: save ${topicKey(change, first)} first${next === first ? '' : `; the next phase that is ready is ${next}`}`
}

export function phaseStatus(
  place: Place,
  present: Present,
): Omit<ChangeStatus, 'artifacts' | 'project' | 'change'> {
  const next = nextPhase(present)
  return {
    present: phases.filter((phase) => present.has(phase)),
    missing: phases.filter((phase) => !present.has(phase)),
    next,
    hint:
      next === null
        ? 'Every phase has its artifact'
        : `Work on ${next}, then save ${topicKey(place.change, next)}`,
  }
}
