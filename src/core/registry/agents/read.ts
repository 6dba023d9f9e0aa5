import type {
  Agent,
  AgentMode,
  AgentRevision,
  AgentRevisionView,
  AgentRow,
} from '../../../contract/agent.ts'
import { AppError } from '../../../contract/error.ts'
import type { RegistryPlace, RegistryScope } from '../../../contract/registry-scope.ts'
import type { Db } from '../../ports.ts'
import { type ListCaller, limitValues, mayUseProject, type Place, placeOf } from '../place.ts'
import {
  agentOf,
  atPlace,
  columns,
  current,
  ofCaller,
  placeValues,
  type Row,
  revisionOf,
  agentRow,
} from './record.ts'

export type Reader = ListCaller

const notFound = () => new AppError('not_found', 'There is no such agent')

/** As it is stored. Archived ones too. */
export async function findAgentRow(db: Db, place: Place, name: string): Promise<Row | null> {
  const [row] = await db.all<Row>(
    `select ${columns} from ${current} where ${atPlace}`,
    ...placeValues(place, name),
  )
  return row ?? null
}

export async function findAgent(db: Db, place: Place, name: string): Promise<Agent | null> {
  const row = await findAgentRow(db, place, name)
  return row && agentOf(row)
}

/** Of an id that was found for the caller before. */
export async function loadAgentRow(db: Db, id: string): Promise<Row> {
  const [row] = await db.all<Row>(`select ${columns} from ${current} where a.id = ?`, id)
  if (!row) throw notFound()
  return row
}

/** Those that are not archived, by name. */
export async function subagentRowsOf(db: Db, parentId: string): Promise<Row[]> {
  return await db.all<Row>(
    `select ${columns} from ${current} where a.parent_id = ? and a.archived_at is null order by a.name`,
    parentId,
  )
}

export async function loadAgentByName(
  db: Db,
  reader: Reader,
  place: RegistryPlace,
  name: string,
): Promise<Agent> {
  const found = await findAgent(db, placeOf(reader, place), name)
  if (!found || !mayUseProject(reader, found.project)) throw notFound()
  return found
}

/** Refuses what is not there, what is another's, and what the key may not see, alike. */
export async function loadAgentById(db: Db, reader: Reader, id: string): Promise<Agent> {
  const [row] = await db.all<Row>(
    `select ${columns} from ${current} where ${ofCaller} and a.id = ?`,
    ...[reader.organisationId, reader.memberId, id],
  )
  if (!row || !mayUseProject(reader, row.project)) throw notFound()
  return agentOf(row)
}

export interface AgentFilter {
  project?: string | undefined
  scope?: RegistryScope | undefined
  mode?: AgentMode | undefined
  parentId?: string | undefined
  capability?: string | undefined
  workflow?: string | undefined
  archived?: boolean | undefined
}

export interface AgentPage {
  limit: number
  after: { name: string; id: string } | null
}

/** By name. What members keep for themselves is theirs alone. */
export async function listAgents(
  db: Db,
  reader: Reader,
  filter: AgentFilter,
  page: AgentPage,
): Promise<AgentRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from ${current} where ${ofCaller} and (a.name, a.id) > (?, ?)
       and (a.archived_at is null) = ?
       and (? is null or a.project in (select value from json_each(?)))
       and ${optional('a.project')} and ${optional('a.scope')} and ${optional('a.mode')} and ${optional('a.parent_id')}
       and ${optionalIn('capabilities')} and ${optionalIn('workflows')}
     order by a.name, a.id limit ?`,
    ...[reader.organisationId, reader.memberId, page.after?.name ?? '', page.after?.id ?? ''],
    filter.archived ? 0 : 1,
    ...twice(limitValues(reader).projects),
    ...[filter.project, filter.scope, filter.mode, filter.parentId].flatMap(twice),
    ...[filter.capability, filter.workflow].flatMap(twice),
    page.limit,
  )
  return rows.map(agentRow)
}

const optional = (column: string) => `(? is null or ${column} = ?)`
const optionalIn = (field: string) =>
  `(? is null or exists (select 1 from json_each(r.definition, '$.${field}') where value = ?))`
const twice = (value: string | null | undefined) => [value ?? null, value ?? null]

const revisionColumns = `r.revision, r.sha256, r.created_by as createdBy, r.created_at as createdAt`

/** Oldest first. Whether the agent is the reader's is asked before. */
export async function listAgentRevisions(
  db: Db,
  agentId: string,
  page: { limit: number; after: number | null },
): Promise<{ items: AgentRevision[]; next: number | null }> {
  const rows = await db.all<AgentRevision>(
    `select ${revisionColumns} from agent_revisions r where r.agent_id = ? and r.revision > ? order by r.revision limit ?`,
    ...[agentId, page.after ?? 0, page.limit + 1],
  )
  const items = rows.slice(0, page.limit).map((row) => ({ ...row }))
  return { items, next: rows.length > page.limit ? (items.at(-1)?.revision ?? null) : null }
}

export async function loadAgentRevision(
  db: Db,
  agentId: string,
  revision: number,
): Promise<AgentRevisionView> {
  const [row] = await db.all<AgentRevision & { definition: string }>(
    `select ${revisionColumns}, r.definition from agent_revisions r where r.agent_id = ? and r.revision = ?`,
    ...[agentId, revision],
  )
  if (!row) throw new AppError('not_found', 'The agent has no such revision')
  return revisionOf(row)
}
