import { AppError } from '../../../contract/error.ts'
import {
  defaultLimits,
  type Firewall,
  type LimitName,
  Limits,
  type LimitsChange,
  listPrices,
  type Prices,
  type Usage,
} from '../../../contract/limits.ts'
import type { Sql } from '../../ports.ts'
import { addAction } from '../record/actions.ts'
import { reservedOn, countLiveReservations, countReserved, dayMs, hourMs } from './reservations.ts'

/**
 * What holds for sandboxes: the limits that an organisation or a project has set, under those of the deployment, and
 * what is used of them. The rows are in `limits`. Whether there is a place under them is decided in places.ts.
 */

const limitNames = Object.keys(Limits.shape) as LimitName[]

/** What holds for one part of the books: the whole organisation, or one project in it. */
export interface Scope {
  project: string | null
  limits: LimitsChange
}

export const startOfDay = (at: number): number => at - (at % dayMs)

export function deploymentLimits(firewall: Firewall): Limits {
  return complete(defaultLimits, firewall)
}

export function limitPrices(firewall: Firewall): Prices {
  return { ...listPrices, ...firewall.prices }
}

export function loadFirewallLimits(sql: Sql, project: string | null): LimitsChange {
  const [row] = sql.all<{ body: string }>(
    'select body from limits where project = ?',
    project ?? '',
  )
  return row ? (JSON.parse(row.body) as LimitsChange) : {}
}

export function saveFirewallLimits(
  sql: Sql,
  now: number,
  project: string | null,
  change: LimitsChange,
  actor: string,
): void {
  const body = JSON.stringify(pickLimits(change))
  sql.run('insert or replace into limits (project, body) values (?, ?)', project ?? '', body)
  const where = project === null ? 'the organisation' : `project "${project}"`
  addAction(sql, now, { action: 'limits.changed', actor, reason: `For ${where}: ${body}` })
}

/** Every scope that a sandbox of this project counts in. All of them are checked, so none can loosen another. */
export function limitScopes(sql: Sql, firewall: Firewall, project: string): [Scope, Scope] {
  return [
    { project: null, limits: organisationLimits(sql, firewall) },
    { project, limits: loadFirewallLimits(sql, project) },
  ]
}

/** What the deployment has set itself is the most that its organisations can have; its defaults they may change. */
function organisationLimits(sql: Sql, firewall: Firewall): Limits {
  const limits = complete(deploymentLimits(firewall), loadFirewallLimits(sql, null))
  for (const name of limitNames) limits[name] = Math.min(limits[name], firewall[name] ?? Infinity)
  return limits
}

export function refuseLimitsAbove(firewall: Firewall, change: LimitsChange): void {
  const above = limitNames.filter((name) => (change[name] ?? 0) > (firewall[name] ?? Infinity))
  if (above.length === 0) return
  throw new AppError(
    'unprocessable',
    'Cannot set the limits: the deployment allows less',
    above.map((path) => ({ path, message: `At most ${firewall[path]}` })),
  )
}

/** In a project the tighter one of each pair. */
export function effectiveLimits(sql: Sql, firewall: Firewall, project: string | null): Limits {
  const limits = organisationLimits(sql, firewall)
  if (project === null) return limits
  const own = loadFirewallLimits(sql, project)
  for (const name of limitNames) limits[name] = Math.min(limits[name], own[name] ?? Infinity)
  return limits
}

export function limitsUsage(sql: Sql, now: number, project: string | null): Usage {
  const { ms, money } = reservedOn(sql, now, startOfDay(now), project)
  return {
    sandboxesLastHour: countReserved(sql, now - hourMs, project),
    concurrentSandboxes: countLiveReservations(sql, now, project),
    hoursToday: ms / hourMs,
    moneyToday: money,
  }
}

function pickLimits(from: LimitsChange): LimitsChange {
  const set = limitNames.filter((name) => from[name] !== undefined)
  return Object.fromEntries(set.map((name) => [name, from[name]]))
}

function complete(unset: Limits, set: LimitsChange): Limits {
  const limits = { ...unset }
  for (const name of limitNames) limits[name] = set[name] ?? unset[name]
  return limits
}
