import type { SkillOutcome, SkillUsage } from '../../../contract/skill-usage.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { type Pin, pinsOf } from '../pins/pins.ts'
import { recordOnRun } from '../runs/rows.ts'

/** OpenCode's own tool that loads a skill. */
export const skillTool = 'skill'

type Row = Omit<SkillUsage, 'sessionId'>

const columns = `id, skill_id as skillId, version, run_id as runId, outcome, actor, note, created_at as createdAt`

/** What OpenCode's tool was given or has done. A skill that the session did not begin with is the repository's own. */
export function followSkillUsage(
  sql: Sql,
  now: number,
  runId: string,
  input: unknown,
  outcome: 'selected' | 'injected',
): void {
  const name = (input as { name?: unknown } | null)?.name
  const pin = pinsOf(sql, 'skill').find((one) => one.name === name)
  if (pin) recordSkillUsage(sql, now, { pin, runId, outcome, actor: 'sandbox', note: '' })
}

interface Use {
  pin: Pin
  runId: string
  outcome: SkillOutcome
  actor: string
  note: string
}

/** Once per run, skill and outcome: the same again is the first. */
export function recordSkillUsage(
  sql: Sql,
  now: number,
  { pin, runId, outcome, actor, note }: Use,
): Row {
  const known = findUsage(sql, runId, pin.id, outcome)
  if (known) return known
  const { name, revision: version, sha256 } = pin
  sql.run(
    `insert into skill_usage (id, skill_id, version, run_id, outcome, actor, note, created_at)
     values ('sku_' || lower(hex(randomblob(10))), ?, ?, ?, ?, ?, ?, ?)`,
    ...[pin.id, version, runId, outcome, actor, note, now],
  )
  const row = findUsage(sql, runId, pin.id, outcome) as Row
  addToOutbox(sql, now, 'skill_usage', row)
  appendEvent(sql, now, 'skill.used', { skillId: pin.id, name, version, runId, outcome })
  if (outcome === 'injected')
    recordOnRun(sql, now, runId, 'skill.injected', { skillId: pin.id, name, version, sha256 })
  return row
}

const findUsage = (sql: Sql, runId: string, skillId: string, outcome: string): Row | undefined =>
  sql.all<Row>(
    `select ${columns} from skill_usage where run_id = ? and skill_id = ? and outcome = ?`,
    ...[runId, skillId, outcome],
  )[0]

/** All of it, anew. */
export function projectSkillUsage(sql: Sql, now: number): void {
  for (const row of sql.all<Row>(`select ${columns} from skill_usage order by n`))
    addToOutbox(sql, now, 'skill_usage', row)
}
