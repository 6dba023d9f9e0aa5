import { nameInOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { projectApproval } from '../approvals/rows.ts'
import { projectEvidenceEvents } from '../evidence/events.ts'
import { projectEvidenceTexts } from '../evidence/texts.ts'
import { projectAttempt } from '../operations/attempts.ts'
import { projectRun } from '../runs/rows.ts'
import { nameTimelines } from '../runs/timeline.ts'
import { projectArtifacts } from '../artifacts/rows.ts'
import { projectAutomationRun } from '../automation/automation.ts'
import { projectSession } from '../record/record.ts'
import { projectSkillUsage } from '../skills/usage.ts'
import { projectTurn } from '../turns/rows.ts'

type Tell = (sql: Sql, now: number) => void

const each =
  (table: string, project: (sql: Sql, now: number, id: string) => void): Tell =>
  (sql, now) => {
    for (const { id } of sql.all<{ id: string }>(`select id from ${table}`)) project(sql, now, id)
  }

/** Kinds of rows whose records stay in the session: all of them can be told to libSQL anew, as they are now. */
const tellings: Readonly<Record<string, Tell>> = {
  session: projectSession,
  turn: each('turns', projectTurn),
  call: (sql, now) => {
    for (const { n } of sql.all<{ n: number }>('select n from calls'))
      nameInOutbox(sql, now, 'call', String(n))
  },
  artifact: projectArtifacts,
  change_event: projectEvidenceEvents,
  change_text: projectEvidenceTexts,
  run: each('runs', projectRun),
  run_event: nameTimelines,
  approval: each('approvals', projectApproval),
  attempt: each('attempts', projectAttempt),
  automation_run: projectAutomationRun,
  skill_usage: projectSkillUsage,
}

export const canBeTold = (kind: string): boolean => Object.hasOwn(tellings, kind)

/** Inside a commit. False: nothing is left of this kind to tell from. */
export function tellSessionAnew(sql: Sql, now: number, kind: string): boolean {
  if (!canBeTold(kind)) return false
  tellings[kind]?.(sql, now)
  return true
}
