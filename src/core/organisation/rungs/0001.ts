export const rung: readonly string[] = [
  `create table creations (
      key text primary key,
      body_hash text not null,
      session_id text not null,
      created_at integer not null
    )`,
  'create index creations_by_age on creations (created_at)',
]
