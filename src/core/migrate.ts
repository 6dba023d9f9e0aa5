import type { Sql } from './ports.ts'

/** True once `migrate` has run here. Asking writes nothing. */
export function isMigrated(sql: Sql): boolean {
  return sql.all(`select 1 from sqlite_master where name = '_schema'`).length > 0
}

/** Climbs the ladder from where this database stands; at the top it only reads. A rung that has landed is never edited. */
export function migrate(sql: Sql, ladder: readonly (readonly string[])[]): void {
  const version = versionOf(sql)
  if (version === ladder.length) return
  sql.transaction(() => {
    sql.run('create table if not exists _schema (version integer not null)')
    for (const rung of ladder.slice(version)) for (const statement of rung) sql.run(statement)
    sql.run('delete from _schema')
    sql.run('insert into _schema (version) values (?)', ladder.length)
  })
}

function versionOf(sql: Sql): number {
  if (!isMigrated(sql)) return 0
  return sql.all<{ version: number }>('select version from _schema')[0]?.version ?? 0
}
