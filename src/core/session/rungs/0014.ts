export const rung: readonly string[] = [
  `create table uploads (
    sha256 text primary key,
    size integer not null,
    -- When it was last let in.
    at integer not null
  )`,
]
