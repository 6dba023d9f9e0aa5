export const rung: readonly string[] = [
  // JSON; null: all. Sessions of before have no tools for abilities.
  `alter table session add column ability_names text default '[]'`,
  // What lies in the workspace below .opencode/abilities, as its sandbox has told it last. One row per file or folder.
  `create table workspace_abilities (
    path text primary key,
    main text not null,
    hash text not null,
    name text,
    definition text,
    problems text not null,
    told_at integer not null
  )`,
  // The files of those that an execution runs or waits to run, as they were then. They go with the session.
  `create table workspace_folders (
    hash text not null,
    path text not null,
    content text not null,
    primary key (hash, path)
  )`,
  // When an ability was last proposed.
  `create table ability_proposals (name text primary key, at integer not null)`,
]
