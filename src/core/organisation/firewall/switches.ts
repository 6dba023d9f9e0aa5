import type { KillSwitch, KillSwitchChange } from '../../../contract/kill-switch.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { addAction } from '../record/actions.ts'
import { type DeploymentSwitch, type Refusal, organisationApiRefusal } from '../record/api.ts'
import { countLiveReservations } from './reservations.ts'

/**
 * The two switches that an organisation knows: its own, and what it has heard of the deployment's. While one of them is
 * on, no place is given, and the deadline `kill` is set until everything has stopped (kill-switch.ts). Every function
 * runs inside a commit or a read of its caller.
 */
type SwitchName = 'own' | 'deployment'
interface SwitchRow {
  version: number
  on: boolean
  reason: string
  changedAt: number | null
  changedBy: string | null
}

export function loadSwitch(sql: Sql, name: SwitchName): SwitchRow {
  const [row] = sql.all<Omit<SwitchRow, 'on'> & { on: number }>(
    `select version, is_on as "on", reason, changed_at as changedAt, changed_by as changedBy
     from switches where name = ?`,
    name,
  )
  if (!row) return { version: 0, on: false, reason: '', changedAt: null, changedBy: null }
  return { ...row, on: row.on === 1 }
}

/** Before anything is stopped: from this commit on no place is given. */
export function changeSwitch(
  sql: Sql,
  now: number,
  { on, reason }: KillSwitchChange,
  actor: string,
): void {
  const { version } = loadSwitch(sql, 'own')
  save(sql, 'own', { version: version + 1, on, reason, changedAt: now, changedBy: actor })
  addAction(sql, now, { action: on ? 'kill-switch.on' : 'kill-switch.off', actor, reason })
  setDeadline(sql, 'tell', now)
  armKill(sql, now)
}

/** News may come late and out of order: only a newer one counts. */
export function hearDeploymentSwitch(sql: Sql, now: number, news: DeploymentSwitch): void {
  const known = loadSwitch(sql, 'deployment')
  if (!isNews(known, news)) return
  const { version, on, reason } = news
  save(sql, 'deployment', { version, on, reason, changedAt: now, changedBy: 'deployment' })
  if (on === known.on) return
  const action = on ? 'deployment-switch.on' : 'deployment-switch.off'
  addAction(sql, now, { action, actor: 'deployment', reason })
  armKill(sql, now)
}

export const isNews = (known: Pick<SwitchRow, 'version'>, news: DeploymentSwitch): boolean =>
  news.version > known.version

function armKill(sql: Sql, now: number): void {
  if (killSwitchReason(sql) === null) clearDeadline(sql, 'kill')
  else setDeadline(sql, 'kill', now)
}

/** Null: no switch is on. */
export function killSwitchReason(sql: Sql): string | null {
  const { on, reason } = loadSwitch(sql, 'deployment')
  if (on) return `The kill switch of the deployment is on${because(reason)}`
  const own = loadSwitch(sql, 'own')
  return own.on ? `The kill switch of the organisation is on${because(own.reason)}` : null
}

/** Since when everything must go. */
export function killSwitchAt(sql: Sql): number {
  const on = [loadSwitch(sql, 'own'), loadSwitch(sql, 'deployment')].filter(({ on }) => on)
  return Math.min(...on.map(({ changedAt }) => changedAt ?? 0))
}

/** Whoever is refused asks again so often, and goes on by itself once it is lifted. */
const askAgainMs = 15_000

export function switchRefusal(sql: Sql, now: number): Refusal | null {
  const reason = killSwitchReason(sql)
  if (reason === null) return null
  const words = `${reason.charAt(0).toLowerCase()}${reason.slice(1)}. It must be lifted first`
  return organisationApiRefusal(words, now + askAgainMs)
}

export function viewSwitch(sql: Sql, now: number): KillSwitch {
  const { version: _, ...own } = loadSwitch(sql, 'own')
  const { on, reason } = loadSwitch(sql, 'deployment')
  return { ...own, liveSandboxes: countLiveReservations(sql, now), deployment: { on, reason } }
}

function save(sql: Sql, name: SwitchName, row: SwitchRow): void {
  sql.run(
    `insert or replace into switches (name, version, is_on, reason, changed_at, changed_by)
     values (?, ?, ?, ?, ?, ?)`,
    name,
    row.version,
    row.on ? 1 : 0,
    row.reason,
    row.changedAt,
    row.changedBy,
  )
}

const because = (reason: string): string => (reason === '' ? '' : `: ${reason}`)
