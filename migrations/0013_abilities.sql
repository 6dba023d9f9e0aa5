-- Abilities: a folder each, in versions that never change. `project` is empty for those of the whole organisation. A
-- version without a hash says that from then on there is none.
create table abilities (
  organisation_id text not null references organisations (id),
  project text not null,
  name text not null,
  version integer not null,
  description text not null,
  hash text,
  main_path text not null,
  created_by text not null,
  created_at integer not null,
  primary key (organisation_id, project, name, version)
);

-- The files of a folder, by its hash: written before any version that names it.
create table ability_files (
  organisation_id text not null,
  hash text not null,
  path text not null,
  content text not null,
  primary key (organisation_id, hash, path)
);
