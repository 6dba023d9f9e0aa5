import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { RunStatus, runEnds } from '../../../../src/contract/run.ts'
import {
  hasEnded,
  nextRunStatus,
  type RunCause,
  runTransitions,
} from '../../../../src/core/session/runs/transitions.ts'

const causes: RunCause[] = [
  'plan',
  'start',
  'wait',
  'answer',
  'complete',
  'fail',
  'block',
  'cancel',
]
const spec = readFileSync(new URL('../../../../SPEC.md', import.meta.url), 'utf8')

/** `| from | cause | to |` in the table that SPEC gives for runs. */
const told = new Map(
  [...spec.matchAll(/^\| `run:([a-z-]+)` \| `([a-z]+)` \| `([a-z-]+)` \|$/gm)].map(
    ([, from, cause, to]) => [`${from} ${cause}`, to],
  ),
)

describe('[RUN2] [R1-22] [R1-25] every status x cause is as SPEC says', () => {
  for (const status of RunStatus.options) {
    for (const cause of causes) {
      test(`${status} + ${cause}`, () => {
        expect(nextRunStatus(status, cause) ?? undefined).toBe(told.get(`${status} ${cause}`))
      })
    }
  }
})

test('[RUN2] each pair of statuses has one cause', () => {
  for (const row of Object.values(runTransitions)) {
    const targets = Object.values(row)
    expect(new Set(targets).size).toBe(targets.length)
  }
})

test('[RUN3] every status that is not an end has an exit, and an end has none', () => {
  for (const status of RunStatus.options) {
    const exits = Object.values(runTransitions[status])
    expect(hasEnded(status)).toBe(exits.length === 0)
    if (!hasEnded(status)) for (const end of runEnds) expect(exits).toContain(end)
  }
})
