import { expect, test } from 'vitest'
import type { Phase } from '../../../../src/contract/phase.ts'
import {
  nextPhase,
  phaseReadiness,
  phaseStatus,
  workflowOf,
} from '../../../../src/core/registry/phases/rules.ts'

/** As the requirement has it. */
const needs: Record<string, Phase[]> = {
  explore: [],
  proposal: ['explore'],
  spec: ['proposal'],
  design: ['proposal', 'spec'],
  tasks: ['proposal', 'spec', 'design'],
  'apply-progress': ['tasks'],
  verify: ['apply-progress'],
  archive: ['verify'],
}
const all = Object.keys(needs) as Phase[]
const place = { project: 'web', change: 'add-login' }
const subsets = Array.from(
  { length: 2 ** all.length },
  (_, bits) => new Set(all.filter((_, at) => (bits >> at) & 1)),
)

test('[SDD1] eight phases in their order, each with its topic key and what it needs', () => {
  expect(workflowOf('add-login')).toEqual({
    change: 'add-login',
    phases: all.map((phase) => ({
      phase,
      topicKey: `sdd/add-login/${phase}`,
      requires: needs[phase],
    })),
  })
})

test('[SDD2] whatever is there, a phase is ready if and only if its own prerequisites are there', () => {
  for (const present of subsets)
    for (const phase of all) {
      const missing = (needs[phase] ?? []).filter((one) => !present.has(one))
      const answer = phaseReadiness(place, phase, present)
      expect(answer).toMatchObject({
        ready: missing.length === 0,
        present: present.has(phase),
        missing: missing.map((one) => `sdd/add-login/${one}`),
        satisfied: (needs[phase] ?? [])
          .filter((one) => present.has(one))
          .map((one) => `sdd/add-login/${one}`),
      })
      if (missing[0]) expect(answer.hint).toContain(`save sdd/add-login/${missing[0]} first`)
    }
})

test('[SDD3] whatever is there, what is next is the first that is missing and ready, or nothing is missing', () => {
  for (const present of subsets) {
    const status = phaseStatus(place, present)
    expect([...status.present, ...status.missing].toSorted()).toEqual(all.toSorted())
    expect(status.present).toEqual(all.filter((phase) => present.has(phase)))
    const ready = all.filter(
      (phase) => !present.has(phase) && phaseReadiness(place, phase, present).ready,
    )
    expect(status.next).toBe(ready[0] ?? null)
    expect(status.next === null).toBe(status.missing.length === 0)
    expect(status.hint).toContain(
      status.next === null ? 'Every phase' : `sdd/add-login/${status.next}`,
    )
  }
})

test('[SDD2] [SDD3] with only tasks, apply-progress is ready, and explore is next', () => {
  const present = new Set<Phase>(['tasks'])
  expect(phaseReadiness(place, 'apply-progress', present).ready).toBe(true)
  expect(nextPhase(present)).toBe('explore')
  expect(phaseReadiness(place, 'verify', present).hint).toBe(
    'Not ready: save sdd/add-login/apply-progress first; the next phase that is ready is explore',
  )
})
