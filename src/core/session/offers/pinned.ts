import type { AbilityDocument } from '../../../contract/ability.ts'
import type { Sql } from '../../ports.ts'
import { pinsOf } from '../pins/pins.ts'

/** What a session keeps of a stored ability: enough to propose it and to say whom it is for. */
export interface PinnedAbility {
  description: string
  triggers: AbilityDocument['triggers']
  exclusive_agent: string | undefined
  compatible_agents: string[] | undefined
}

export interface OfferedStored extends PinnedAbility {
  name: string
  version: number
}

/** Those that the session began with. */
export const pinnedAbilities = (sql: Sql): OfferedStored[] =>
  pinsOf(sql, 'ability').map(({ name, revision, content }) => ({
    ...(JSON.parse(content) as PinnedAbility),
    ...{ name, version: revision },
  }))
