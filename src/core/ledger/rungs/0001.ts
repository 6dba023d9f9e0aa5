export const rung: readonly string[] = [
  `create table dead_letters (
      session_id text not null,
      seq integer not null,
      kind text not null,
      error text not null,
      at integer not null,
      primary key (session_id, seq)
    )`,
]
