// Registered agents, stored. What is written is one batch that may be sent again: the same definition twice is one
// revision, and whoever was overtaken has still left its revision.

import type { Agent, AgentDefinition } from '../../../contract/agent.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import type { Place } from '../place.ts'
import { mustHoldNoSecret } from '../secret-free.ts'
import { findAgent, loadAgentById, type Reader } from './read.ts'
import { atPlace, placeValues } from './record.ts'
import { shippedAgents } from './shipped.ts'

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
  mustHoldNoSecret(`agent "${name}"`, { name, ...definition })
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
