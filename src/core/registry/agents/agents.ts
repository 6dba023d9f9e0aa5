import type {
  Agent,
  AgentDefinition,
  AgentRevision,
  AgentRevisionView,
  AgentRow,
  AgentMode,
} from '../../../contract/agent.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { type Place, type ListCaller, limitValues, mayUseProject, placeOf } from '../place.ts'
import { mustBeSecretFree } from '../secret-free.ts'
import { shippedAgents } from './shipped.ts'
import type { RegistryPlace, RegistryScope } from '../../../contract/registry-scope.ts'

// Registered agents, stored. What is written is one batch that may be sent again: the same definition twice is one
// revision, and whoever was overtaken has still left its revision.

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

function agentRow(row: Row): AgentRow {
  const { instructions: _, adapters: __, ...shown } = agentOf(row)
  return shown
}

const revisionOf = ({
  definition,
  ...revision
}: AgentRevision & { definition: string }): AgentRevisionView => ({
  ...revision,
  ...(JSON.parse(definition) as AgentDefinition),
})

const maxAgentsPerPlace = 500

interface Stored {
  place: Place
  name: string
  definition: AgentDefinition
  keyId: string
}

/** Upserts by place and name. The id is the same for ever; a definition that differs is the next revision. */
export async function storeAgent(
  db: Db,
  crypto: Pick<Crypto, 'random' | 'sha256'>,
  now: number,
  agent: Stored,
): Promise<Agent> {
  const { place, name, definition } = agent
  mustBeSecretFree(`agent "${name}"`, { name, ...definition })
  await mustFit(db, agent)
  const revision = await revisionFor(crypto, definition)
  await db.batch(statements(`agt_${crypto.random(20)}`, now, agent, revision))
  const stored = await findAgent(db, place, name)
  // If another request came right behind, its revision is the current one.
  if (stored && (await hasRevision(db, stored.id, revision.sha256))) return stored
  throw new AppError(
    'wrong_state',
    `Cannot store agent "${name}": its parent or the last free name was taken away meanwhile`,
  )
}

interface Revision {
  text: string
  sha256: string
}

async function revisionFor(
  crypto: Pick<Crypto, 'sha256'>,
  definition: AgentDefinition,
): Promise<Revision> {
  const text = canonicalJson(definition)
  return { text, sha256: await crypto.sha256(text) }
}

async function hasRevision(db: Db, agentId: string, sha256: string): Promise<boolean> {
  const statement = 'select 1 from agent_revisions where agent_id = ? and sha256 = ? limit 1'
  return (await db.all(statement, agentId, sha256)).length > 0
}

/** What a release brings, as agents of the place: all or none. What the place has by these names stays as it is. */
export async function storeShippedAgents(
  db: Db,
  crypto: Pick<Crypto, 'random' | 'sha256'>,
  now: number,
  { place, keyId }: Pick<Stored, 'place' | 'keyId'>,
): Promise<Agent[]> {
  const batches = await Promise.all(
    shippedAgents.map(async (agent) => {
      const revision = await revisionFor(crypto, agent.definition)
      const id = `agt_${crypto.random(20)}`
      return statements(id, now, { ...agent, place, keyId }, revision, 'a.revision = 0')
    }),
  )
  await db.batch(batches.flat())
  const stored = await Promise.all(shippedAgents.map(({ name }) => findAgent(db, place, name)))
  const missing = shippedAgents.filter((_, at) => stored[at] === null).map(({ name }) => name)
  if (missing.length === 0) return stored.flatMap((agent) => agent ?? [])
  throw new AppError(
    'wrong_state',
    `Cannot store ${missing.join(', ')}: their parent is archived or is no agent here, or there are too many names`,
  )
}

/** Refusals that can be explained; the statements hold the same once more. */
async function mustFit(db: Db, { place, name, definition }: Stored): Promise<void> {
  const { mode, parent } = definition
  const known = await findAgent(db, place, name)
  if (known && known.mode !== mode)
    throw new AppError(
      'wrong_state',
      `"${name}" is ${nameOf[known.mode]} and stays one: choose another name`,
      [{ path: 'mode', message: `Must be "${known.mode}"` }],
    )
  if (known === null) await mustHaveRoom(db, place)
  if (parent === null) return
  const found = await findAgent(db, place, parent)
  if (found && found.archivedAt === null && found.mode === 'agent') return
  const message = `There is no agent "${parent}" in this project and scope`
  throw new AppError('unprocessable', `Cannot store subagent "${name}": ${message}`, [
    { path: 'parent', message },
  ])
}

const nameOf = { agent: 'an agent', subagent: 'a subagent' }

async function mustHaveRoom(db: Db, place: Place): Promise<void> {
  const [row] = await db.all<{ count: number }>(
    `select count(*) as count from agents a where ${inPlace}`,
    ...placeOnly(place),
  )
  if ((row?.count ?? 0) < maxAgentsPerPlace) return
  throw new AppError(
    'unprocessable',
    `There are ${maxAgentsPerPlace} agents in this project and scope: use one of their names again`,
  )
}

const inPlace = 'a.organisation_id = ? and a.project = ? and a.scope = ? and a.member_id = ?'
const placeOnly = (place: Place): string[] => placeValues(place, '').slice(0, -1)

/** The parent, if one is named, is an agent of the same place: six values. */
const parentThere = `(? is null or exists (select 1 from agents a where ${atPlace} and a.mode = 'agent' and a.archived_at is null))`

function statements(
  id: string,
  now: number,
  { place, name, definition: { mode, parent }, keyId }: Stored,
  { text, sha256 }: Revision,
  onlyIf = '1',
): DbStatement[] {
  const own = placeValues(place, name)
  const parents = [parent, ...placeValues(place, parent ?? '')]
  return [
    {
      sql: `insert into agents (id, organisation_id, project, scope, member_id, name, mode, revision, created_at, updated_at)
            select ?, ?, ?, ?, ?, ?, ?, 0, ?, ? where ${parentThere}
              and (select count(*) from agents a where ${inPlace}) < ${maxAgentsPerPlace}
            on conflict do nothing`,
      values: [id, ...own, mode, now, now, ...parents, ...placeOnly(place)],
    },
    {
      sql: `insert into agent_revisions (agent_id, revision, definition, sha256, created_by, created_at)
            select a.id, a.revision + 1, ?, ?, ?, ? from agents a
            where ${atPlace} and ${onlyIf} and a.mode = ? and ${parentThere} and (a.archived_at is not null or not exists (
              select 1 from agent_revisions r where r.agent_id = a.id and r.revision = a.revision and r.sha256 = ?))`,
      values: [text, sha256, keyId, now, ...own, mode, ...parents, sha256],
    },
    {
      sql: `update agents as a set revision = a.revision + 1, updated_at = ?, archived_at = null,
              parent_id = (select p.id from agents p where p.organisation_id = a.organisation_id and p.project = a.project
                and p.scope = a.scope and p.member_id = a.member_id and p.name = ?)
            where ${atPlace} and exists (
              select 1 from agent_revisions r where r.agent_id = a.id and r.revision = a.revision + 1)`,
      values: [now, parent, ...own],
    },
  ]
}

/** With its subagents, which nobody could delegate to any more. Repeatable: the first time stays. */
export async function archiveAgent(
  db: Db,
  now: number,
  reader: Reader,
  agentId: string,
): Promise<Agent> {
  await loadAgentById(db, reader, agentId)
  await db.batch([
    {
      sql: `update agents set archived_at = coalesce(archived_at, ?) where organisation_id = ? and (id = ? or parent_id = ?)`,
      values: [now, reader.organisationId, agentId, agentId],
    },
  ])
  return await loadAgentById(db, reader, agentId)
}

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
export async function subagentRowsOfAgent(db: Db, parentId: string): Promise<Row[]> {
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
