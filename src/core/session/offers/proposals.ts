import { agentRefusesAbility } from '../../abilities/agents.ts'
import {
  matchesTriggerPattern,
  proposeAgainMs,
  triggerPatternBudget,
} from '../../abilities/patterns.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import { loadSession } from '../record/record.ts'
import { offeredAbilities } from './offered.ts'

/** More in one message would be noise. */
const maxProposed = 3

/**
 * What goes with a message that speaks of abilities: which they are, and how one is run. Nothing is started. Inside the
 * commit that sends the message; null: there is nothing to propose.
 */
export function offerProposalNotice(sql: Sql, now: number, text: string): string | null {
  if (!loadSession(sql).equipment.includes('abilities')) return null
  const { abilities, runner } = offeredAbilities(sql)
  const budget = triggerPatternBudget()
  const proposed = abilities
    .filter(
      (one) =>
        one.runnable &&
        agentRefusesAbility(one, runner) === null &&
        matchesTriggerPattern(one, text, budget),
    )
    .filter(({ name }) => mayPropose(sql, now, name))
    .slice(0, maxProposed)
  for (const { name } of proposed) {
    sql.run('insert or replace into ability_proposals values (?, ?)', name, now)
    appendEvent(sql, now, 'ability.proposed', { ability: name })
  }
  if (proposed.length === 0) return null
  return [
    'Note from Gantry: this message may be about an ability of this project.',
    ...proposed.map(({ name, description }) => `- ${name}: ${description}`),
    'If it is, run it with ability_run instead of doing the work by hand; ability_list says more.',
  ].join('\n')
}

function mayPropose(sql: Sql, now: number, name: string): boolean {
  const [last] = sql.all<{ at: number }>('select at from ability_proposals where name = ?', name)
  return last === undefined || now - last.at >= proposeAgainMs
}
