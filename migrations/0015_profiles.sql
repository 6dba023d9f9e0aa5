-- Profiles: which model each agent, subagent and phase works with. Kept like agents.
create table profiles (
  id text primary key,
  organisation_id text not null references organisations (id),
  project text not null,
  scope text not null,
  member_id text not null,
  name text not null,
  revision integer not null,
  created_at integer not null,
  updated_at integer not null,
  archived_at integer,
  unique (organisation_id, project, scope, member_id, name)
);
create index profiles_by_name on profiles (organisation_id, name, id);

create table profile_revisions (
  profile_id text not null,
  revision integer not null,
  definition text not null,
  sha256 text not null,
  created_by text not null,
  created_at integer not null,
  primary key (profile_id, revision)
);
