import type { EnclosureReport } from '../../../contract/enclosure.ts'
import type { Layout } from '../../../contract/manifest.ts'
import type { Enforcement } from '../../../contract/operation.ts'
import type { Policy } from '../../../contract/policy.ts'
import type { Sql } from '../../ports.ts'

export function savePolicyRow(sql: Sql, policy: Policy | null): void {
  sql.run('delete from policy')
  if (policy) sql.run('insert into policy values (?)', JSON.stringify(policy))
}

export function savePolicyLayout(sql: Sql, layout: Layout): void {
  sql.run('update place set layout = ?', JSON.stringify(layout))
}

export function savePolicyEnforcement(sql: Sql, enforces: readonly Enforcement[]): void {
  sql.run('update place set enforces = ?', JSON.stringify(enforces))
}

/** With its generation: what the one before had says nothing of the next. */
export function savePolicyEnclosure(sql: Sql, generation: number, report: EnclosureReport): void {
  sql.run('update place set enclosure = ?', JSON.stringify({ generation, report }))
}

/** Null: the sandbox of this generation has not said it. */
export function loadPolicyEnclosure(sql: Sql, generation: number): EnclosureReport | null {
  const row = sql.all<{ enclosure: string | null }>('select enclosure from place')[0]
  const said = JSON.parse(row?.enclosure ?? 'null') as SaidEnclosure | null
  return said?.generation === generation ? said.report : null
}

interface SaidEnclosure {
  generation: number
  report: EnclosureReport
}

export function loadPolicyRow(sql: Sql): Policy | null {
  const row = sql.all<{ document: string }>('select document from policy')[0]
  return row ? (JSON.parse(row.document) as Policy) : null
}

export interface Place {
  layout: Layout | null
  enforces: Enforcement[]
}

export function loadPolicyPlace(sql: Sql): Place {
  const row = sql.all<{ layout: string | null; enforces: string | null }>(
    'select layout, enforces from place',
  )[0]
  return {
    layout: row?.layout ? (JSON.parse(row.layout) as Layout) : null,
    enforces: row?.enforces ? (JSON.parse(row.enforces) as Enforcement[]) : [],
  }
}
