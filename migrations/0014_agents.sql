-- Registered agents and subagents. A name is taken once per organisation, project, scope and member ('' for what a project
-- shares), and keeps its id for ever, also while it is archived. What an agent is stands in its revisions, which only grow.
create table agents (
  id text primary key,
  organisation_id text not null references organisations (id),
  project text not null,
  scope text not null,
  member_id text not null,
  name text not null,
  mode text not null,
  parent_id text,
  -- The current one. 0 only inside the step that makes it.
  revision integer not null,
  created_at integer not null,
  updated_at integer not null,
  archived_at integer,
  unique (organisation_id, project, scope, member_id, name)
);
create index agents_by_name on agents (organisation_id, name, id);
create index agents_by_parent on agents (parent_id);

create table agent_revisions (
  agent_id text not null,
  revision integer not null,
  -- Canonical JSON; the hash is over exactly this text.
  definition text not null,
  sha256 text not null,
  created_by text not null,
  created_at integer not null,
  primary key (agent_id, revision)
);
