import type { AbilityStep } from '../../../contract/ability.ts'
import { openCodeAgents } from '../../../contract/agent.ts'
import type { Ability } from '../../abilities/definition.ts'
import type { Db } from '../../ports.ts'

/** Whose ability: one project's, or (null) the whole organisation's. */
export interface AbilityOwner {
  organisationId: string
  project: string | null
}

/**
 * What the steps of an ability name and neither its project nor the organisation has. It may come later, and agents may
 * be files of the workspace, so it is only told.
 */
export async function missingNames(
  db: Db,
  owner: AbilityOwner,
  { name: self, steps }: Pick<Ability, 'name' | 'steps'>,
): Promise<string[]> {
  const missing = async (names: readonly string[], table: Table): Promise<string[]> => {
    const wanted = [...new Set(names)]
    const known = wanted.length === 0 ? [] : await namesIn(db, owner, table, wanted)
    return wanted.filter((name) => !known.includes(name))
  }
  const of = (pick: (step: AbilityStep) => string | null) =>
    steps.map(pick).filter((name) => name !== null)
  const agents = of((step) => (step.type === 'agent' ? step.agent : null))
  const skills = of((step) => (step.type === 'skill' ? step.skill : null))
  const abilities = of((step) => (step.type === 'workflow' ? step.workflow : null))
  return [
    ...(await missing(
      agents.filter((name) => !openCodeAgents.includes(name)),
      'agents',
    ).then(told('agent', 'is registered; OpenCode or the workspace must have it'))),
    ...(await missing(skills, 'skills').then(told('skill', 'is registered yet'))),
    ...(await missing(
      abilities.filter((name) => name !== self),
      'abilities',
    ).then(told('ability', 'is stored yet'))),
  ]
}

const told = (kind: string, what: string) => (names: readonly string[]) =>
  names.map((name) => `No ${kind} "${name}" ${what}`)

const tables = {
  agents: `member_id = '' and archived_at is null`,
  skills: `member_id = ''`,
  abilities: `hash is not null and version = (select max(version) from abilities as other
     where other.organisation_id = t.organisation_id and other.project = t.project and other.name = t.name)`,
}
type Table = keyof typeof tables

/** What is for the organisation as a whole may run in each of its projects. */
async function namesIn(
  db: Db,
  { organisationId, project }: AbilityOwner,
  table: Table,
  names: readonly string[],
): Promise<string[]> {
  const rows = await db.all<{ name: string }>(
    `select distinct name from ${table} as t where organisation_id = ?1 and (?2 is null or project in (?2, ''))
       and name in (select value from json_each(?3)) and ${tables[table]}`,
    ...[organisationId, project, JSON.stringify(names)],
  )
  return rows.map(({ name }) => name)
}
