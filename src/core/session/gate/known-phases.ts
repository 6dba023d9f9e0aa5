import type { PhaseStates } from '../../../contract/permission.ts'
import type { Phase } from '../../../contract/phase.ts'
import { topicKey } from '../../../contract/phase.ts'
import { missingFor, phases } from '../../registry/phases/rules.ts'
import type { Sql } from '../../ports.ts'

/** What the session knows of one change: the phases that have artifacts. Phases only come, so what it knows stays true. */
export interface KnownChange {
  change: string
  present: readonly Phase[]
}

/** Added to what is known: an answer of libSQL may be older than what the session was told meanwhile. */
export function saveKnownPhases(sql: Sql, now: number, { change, present }: KnownChange): void {
  const known = knownPhases(sql).get(change) ?? []
  sql.run(
    `insert into known_changes (change, present, heard_at) values (?, ?, ?)
     on conflict (change) do update set present = excluded.present, heard_at = excluded.heard_at`,
    ...[change, JSON.stringify([...new Set([...known, ...present])]), now],
  )
}

function knownPhases(sql: Sql): Map<string, ReadonlySet<Phase>> {
  const rows = sql.all<{ change: string; present: string }>(
    'select change, present from known_changes',
  )
  return new Map(rows.map(({ change, present }) => [change, new Set(JSON.parse(present))]))
}

/** Of every phase of the changes that it knows: what it lacks. */
export function knownPhaseStates(sql: Sql): PhaseStates {
  const states = [...knownPhases(sql)].flatMap(([change, present]) =>
    phases.map((phase) => {
      const missing = missingFor(phase, present).map((one) => topicKey(change, one))
      return [topicKey(change, phase), missing] as const
    }),
  )
  return Object.fromEntries(states)
}
