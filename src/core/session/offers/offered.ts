import type { AbilityDocument } from '../../../contract/ability.ts'
import type { OfferedAbility } from '../../../contract/offered-ability.ts'
import { agentRefusesAbility } from '../../abilities/agents.ts'
import type { Sql } from '../../ports.ts'
import { pinnedAgents } from '../pins/agents.ts'
import { loadSession } from '../record/record.ts'
import { pinnedAbilities } from './pinned.ts'
import { type WorkspaceAbility, listWorkspaceOffers } from './rows.ts'

type Restrictions = Pick<AbilityDocument, 'triggers' | 'exclusive_agent' | 'compatible_agents'>

export type Offered = OfferedAbility & Restrictions

/** The prefix of one of the workspace whose name a stored one has. */
export const workspacePrefix = 'workspace:'

/** What the session's model may look at, with whoever would run it. */
export function offeredAbilities(sql: Sql) {
  const { abilityNames, trustProjectConfig: trusts } = loadSession(sql)
  const agent = pinnedAgents(sql)?.agent ?? null
  const runner = {
    agent: agent?.name ?? null,
    abilities: agent?.definition.abilities ?? null,
  }
  const stored = pinnedAbilities(sql)
  const isNamed = (name: string) =>
    abilityNames === null ||
    abilityNames.includes(name) ||
    abilityNames.includes(`${workspacePrefix}${name}`)
  const own = new Set<string>()
  const found = listWorkspaceOffers(sql).flatMap((one): Offered[] => {
    const name = one.definition?.name
    if (name === undefined) return [unreadable(one)]
    const isShadowed = own.has(name)
    own.add(name)
    if (!isNamed(name)) return []
    const isTaken = !trusts && stored.some((other) => other.name === name)
    return [workspaceOffer(one, isTaken ? `${workspacePrefix}${name}` : name, isShadowed, trusts)]
  })
  const abilities = [
    ...stored
      .filter(({ name }) => !trusts || !own.has(name))
      .map(({ version, ...one }): Offered => ({
        ...{ ...one, source: 'stored', version, hash: null, path: null },
        ...{ runnable: true, needsApproval: false, problems: [] },
      })),
    ...found,
  ].map((one) => withAgent(one, runner))
  return { abilities, runner }
}

/** Its own problems first; then whether this agent may. */
function withAgent(one: Offered, runner: Parameters<typeof agentRefusesAbility>[1]): Offered {
  const refusal = one.runnable ? agentRefusesAbility(one, runner) : null
  return refusal === null ? one : { ...one, runnable: false, problems: [refusal] }
}

function workspaceOffer(
  { path, hash, definition }: WorkspaceAbility,
  name: string,
  isShadowed: boolean,
  trusts: boolean,
): Offered {
  const problems = isShadowed ? [`Another one in the workspace is called "${name}", too`] : []
  return {
    ...{ name, description: definition?.description ?? '', source: 'workspace', version: null },
    ...{ hash, path, runnable: !isShadowed, needsApproval: !trusts, problems },
    triggers: definition?.triggers,
    exclusive_agent: definition?.exclusive_agent,
    compatible_agents: definition?.compatible_agents,
  }
}

const unreadable = ({ path, hash, problems }: WorkspaceAbility): Offered => ({
  ...{ name: path, description: '', source: 'workspace', version: null },
  ...{ hash: hash || null, path },
  ...{ runnable: false, needsApproval: true, problems },
  ...{ exclusive_agent: undefined, compatible_agents: undefined, triggers: undefined },
})
