/**
 * What members, projects and models have used, added up from libSQL: model calls by day (their rows are bills and outlive
 * the session), calls of tools, and places of sandboxes. Each source has a project and a member, so that a limited key
 * gets the sums of what is within its limits and nothing else.
 */
import type { Usage, UsageBy } from '../../contract/usage.ts'
import type { Db } from '../ports.ts'
import { limitValues, type ListCaller } from './place.ts'

const dayMs = 86_400_000
const defaultDays = 30

interface UsageQuery {
  by: UsageBy
  since: number | undefined
  until: number | undefined
  /** The id of the last row of the page before; '' is what nobody knows. */
  after: string | null
  limit: number
  now: number
}

interface Row extends Omit<Usage, 'id' | 'moneyUsd'> {
  id: string
  moneyMicros: number
}

/** In the order of their ids. */
export async function listUsage(db: Db, caller: ListCaller, query: UsageQuery): Promise<Usage[]> {
  const { by, after, limit } = query
  const { projects, member } = limitValues(caller)
  const { firstDay, lastDay } = daysOf(query)
  const rows = await db.all<Row>(
    usageSql(by),
    caller.organisationId,
    firstDay,
    lastDay,
    projects,
    member,
    after,
    limit,
  )
  return rows.map((row) => usageOf(row, by))
}

function daysOf({ since, until, now }: UsageQuery): { firstDay: number; lastDay: number } {
  const lastDay = Math.floor((until ?? now) / dayMs)
  const firstDay = since === undefined ? lastDay - defaultDays + 1 : Math.floor(since / dayMs)
  return { firstDay, lastDay }
}

const models = `select session_id, project, member_id, model, requests, input_tokens, output_tokens, money_micros,
    0 as tool_calls, 0 as sandbox_seconds
  from model_usage where organisation_id = ?1 and day between ?2 and ?3`

const tools = `select c.session_id, s.project, s.member_id, null, 0, 0, 0, 0, 1, 0
  from session_tool_invocations c join sessions s on s.id = c.session_id
  where c.organisation_id = ?1 and c.created_at >= ?2 * ${dayMs} and c.created_at < (?3 + 1) * ${dayMs}`

/** Of a session that was deleted the bills still know whose it was. */
const sandboxes = `select r.session_id, r.project, coalesce(s.member_id, (
      select u.member_id from model_usage u where u.session_id = r.session_id limit 1)), null, 0, 0, 0, 0, 0, r.seconds
  from sandbox_reservations r left join sessions s on s.id = r.session_id
  where r.organisation_id = ?1 and r.granted_at >= ?2 * ${dayMs} and r.granted_at < (?3 + 1) * ${dayMs}`

const keys: Record<UsageBy, string> = { member: 'member_id', project: 'project', model: 'model' }

/** Tools and sandboxes are of no model. */
const sourcesOf = (by: UsageBy) => (by === 'model' ? [models] : [models, tools, sandboxes])

const usageSql = (by: UsageBy): string => `
  with used as (${sourcesOf(by).join(' union all ')}),
    sums as (
      select coalesce(${keys[by]}, '') as id, sum(requests) as requests, sum(input_tokens) as inputTokens,
        sum(output_tokens) as outputTokens, sum(money_micros) as moneyMicros, sum(tool_calls) as toolCalls,
        sum(sandbox_seconds) as sandboxSeconds
      from used
      where (?4 is null or project in (select value from json_each(?4))) and (?5 is null or member_id = ?5)
      group by 1)
  select sums.*, m.name from sums left join members m on m.organisation_id = ?1 and m.id = sums.id
  where ?6 is null or sums.id > ?6 order by sums.id limit ?7`

function usageOf({ id, moneyMicros, ...row }: Row, by: UsageBy): Usage {
  const unknown = by === 'model' ? { toolCalls: null, sandboxSeconds: null } : {}
  return { ...row, id: id || null, moneyUsd: moneyMicros / 1_000_000, ...unknown }
}
