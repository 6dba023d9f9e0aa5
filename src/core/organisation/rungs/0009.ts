export const rung: readonly string[] = [
  `create table uploads (
    session_id text primary key,
    bytes integer not null
  )`,
]
