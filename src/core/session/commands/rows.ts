import type { CommandBody, CommandKind } from '../../../contract/link.ts'
import type { Sql } from '../../ports.ts'

interface CommandRow {
  id: string
  kind: CommandKind
  body: string
  state: 'open' | 'done'
  ok: number | null
  result: string | null
}

/** Asking again under the same id is the same command: its first result counts. */
export function addCommand<K extends CommandKind>(
  sql: Sql,
  now: number,
  command: { id: string; generation: number; kind: K; body: CommandBody<K> },
): void {
  sql.run(
    `insert or ignore into commands (id, generation, kind, body, state, created_at) values (?, ?, ?, ?, 'open', ?)`,
    command.id,
    command.generation,
    command.kind,
    JSON.stringify(command.body),
    now,
  )
}

export function openCommands(sql: Sql): CommandRow[] {
  return sql.all<CommandRow>(
    `select id, kind, body, state, ok, result from commands where state = 'open' order by n`,
  )
}

export function loadCommand(sql: Sql, id: string): CommandRow | undefined {
  return sql.all<CommandRow>(
    'select id, kind, body, state, ok, result from commands where id = ?',
    id,
  )[0]
}

/** False if it was already done: results are delivered until acknowledged, so they come more than once. */
export function finishCommand(sql: Sql, id: string, ok: boolean, result: unknown): boolean {
  if (loadCommand(sql, id)?.state !== 'open') return false
  sql.run(
    `update commands set state = 'done', ok = ?, result = ? where id = ?`,
    ok ? 1 : 0,
    JSON.stringify(result),
    id,
  )
  return true
}

/** A replaced or lost sandbox carries out nothing more. */
export function dropOpenCommands(sql: Sql, reason: string): void {
  sql.run(
    `update commands set state = 'done', ok = 0, result = ? where state = 'open'`,
    JSON.stringify(reason),
  )
}

export const steerPrefix = 'steer_'

export function dropSteerCommands(sql: Sql, reason: string): void {
  sql.run(
    `update commands set state = 'done', ok = 0, result = ?
     where state = 'open' and substr(id, 1, ${steerPrefix.length}) = ?`,
    JSON.stringify(reason),
    steerPrefix,
  )
}

/** For questions that nobody asks twice. A late result finds no command and is only acknowledged. */
export function forgetCommand(sql: Sql, id: string): void {
  sql.run('delete from commands where id = ?', id)
}

/** Which of these are not open any more; one that was forgotten is not, either. */
export function finishedCommands(sql: Sql, ids: readonly string[]): string[] {
  return sql
    .all<{ id: string }>(
      `select value as id from json_each(?)
       where value not in (select id from commands where state = 'open')`,
      JSON.stringify(ids),
    )
    .map(({ id }) => id)
}
