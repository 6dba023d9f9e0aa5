export const rung: readonly string[] = [
  // What the session began with: revisions of rows of the registries, and their content at that moment.
  `create table pins (
    n integer primary key,
    kind text not null,
    id text not null,
    name text not null,
    revision integer not null,
    sha256 text not null,
    content text not null,
    pinned_at integer not null,
    unique (kind, id)
  )`,
]
