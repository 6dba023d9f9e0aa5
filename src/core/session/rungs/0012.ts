export const rung: readonly string[] = [
  `create table patches (
    n integer primary key,
    turn_id text not null unique,
    generation integer not null,
    at integer not null,
    base text not null,
    tree text not null,
    files integer not null,
    bytes integer not null,
    state text not null,
    note text,
    text text
  )`,
]
