export const rung: readonly string[] = [
  `create table dead_letters (
    seq integer primary key,
    kind text not null,
    -- Null: refused under a release that did not keep it.
    payload text,
    error text not null,
    at integer not null
  )`,
]
