import type { AgentResolution, AgentResolve } from '../../../contract/agent-resolve.ts'
import type { AgentDefinition } from '../../../contract/agent.ts'
import type { Db } from '../../ports.ts'
import { limitValues } from '../place.ts'
import { type Reader, current, ofCaller } from './agents.ts'
import { type Candidate, resolveAgents } from './resolve.ts'

/** How many agents of other projects are shown as skipped. */
const maxElsewhere = 100

/** Reads, and writes nothing: whose rows are looked at is decided by the statements, before anything is ranked. */
export async function loadAgentResolution(
  db: Db,
  reader: Reader,
  asked: AgentResolve,
): Promise<AgentResolution> {
  const [here, elsewhere] = await Promise.all([
    candidatesHere(db, reader, asked.project),
    candidatesElsewhere(db, reader, asked.project),
  ])
  return resolveAgents([...here, ...elsewhere], asked)
}

type Row = Omit<Candidate, 'definition'> & { definition: string }

const columns = 'a.id, a.name, a.project, a.scope, a.mode, a.revision'

/** Without what may be long: it is no part of the score. */
async function candidatesHere(db: Db, reader: Reader, project: string): Promise<Candidate[]> {
  const rows = await db.all<Row>(
    `select ${columns}, json_remove(r.definition, '$.instructions') as definition
     from ${current} where ${ofCaller} and a.project = ? and a.archived_at is null`,
    ...[reader.organisationId, reader.memberId, project],
  )
  return rows.map(candidateOf)
}

function candidateOf({ definition, ...agent }: Row): Candidate {
  const { adapters, ...known } = JSON.parse(definition) as Omit<AgentDefinition, 'instructions'>
  return { ...agent, definition: { ...known, adapters: Object.keys(adapters).toSorted() } }
}

async function candidatesElsewhere(db: Db, reader: Reader, project: string): Promise<Candidate[]> {
  const { projects } = limitValues(reader)
  const rows = await db.all<Omit<Candidate, 'definition'>>(
    `select ${columns} from agents a where ${ofCaller} and a.project <> ? and a.archived_at is null
       and (? is null or a.project in (select value from json_each(?)))
     order by a.name, a.id limit ${maxElsewhere}`,
    ...[reader.organisationId, reader.memberId, project, projects, projects],
  )
  return rows.map((agent) => ({ ...agent, definition: null }))
}
