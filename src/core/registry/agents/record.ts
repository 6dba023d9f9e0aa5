import type {
  Agent,
  AgentDefinition,
  AgentRevision,
  AgentRevisionView,
  AgentRow,
} from '../../../contract/agent.ts'
import type { Place } from '../place.ts'

export interface Row {
  id: string
  project: string
  scope: Agent['scope']
  name: string
  mode: Agent['mode']
  revision: number
  sha256: string
  parentId: string | null
  definition: string
  archivedAt: number | null
  createdAt: number
  updatedAt: number
}

/** Of `agents a` and its current revision `r`. */
export const columns = `a.id, a.project, a.scope, a.name, a.mode, a.revision, r.sha256, a.parent_id as parentId, r.definition,
  a.archived_at as archivedAt, a.created_at as createdAt, a.updated_at as updatedAt`

export const current = `agents a join agent_revisions r on r.agent_id = a.id and r.revision = a.revision`

/** Five values: every statement that names an agent by name says in which place. */
export const atPlace = `a.organisation_id = ? and a.project = ? and a.scope = ? and a.member_id = ? and a.name = ?`
export const placeValues = (place: Place, name: string): string[] => [
  ...[place.organisationId, place.project, place.scope, place.memberId, name],
]

/** Two values. What is a member's own is nobody else's. */
export const ofCaller = `a.organisation_id = ? and a.member_id in ('', ?)`

export function agentOf({ definition, ...row }: Row): Agent {
  return { ...row, ...(JSON.parse(definition) as AgentDefinition) } as Agent
}

export function agentRow(row: Row): AgentRow {
  const { instructions: _, adapters: __, ...shown } = agentOf(row)
  return shown
}

export const revisionOf = ({
  definition,
  ...revision
}: AgentRevision & { definition: string }): AgentRevisionView => ({
  ...revision,
  ...(JSON.parse(definition) as AgentDefinition),
})
