-- Configurations and secrets have their record here: no session owns them. Snapshots and automation runs are projections
-- of the session that made them, like the tables of the first migration.

create table configurations (
  id text primary key,
  organisation_id text not null references organisations (id),
  project text not null,
  name text not null,
  repository_url text,
  repository_ref text,
  repository_token text,
  default_model text,
  trust_project_config integer not null,
  service_commands text not null,
  env_files text not null,
  base_snapshot_id text,
  created_at integer not null,
  updated_at integer not null,
  unique (organisation_id, project, name)
);
create index configurations_by_organisation on configurations (organisation_id, created_at desc, id desc);

-- configuration_id '' is the whole organisation: a null would make every such name distinct to the primary key.
create table secrets (
  organisation_id text not null references organisations (id),
  configuration_id text not null,
  name text not null,
  sealed text not null,
  created_at integer not null,
  updated_at integer not null,
  primary key (organisation_id, configuration_id, name)
);

create table snapshots (
  id text primary key,
  organisation_id text not null,
  configuration_id text,
  session_id text not null,
  provider text not null,
  operation_id text not null unique,
  message text not null,
  bytes integer not null,
  created_at integer not null,
  outbox_seq integer not null
);
create index snapshots_by_session on snapshots (organisation_id, session_id, created_at);
create index snapshots_by_configuration on snapshots (organisation_id, configuration_id, created_at);

-- Callers choose the id of a run, so it is theirs alone only within their organisation.
create table automation_runs (
  id text not null,
  organisation_id text not null,
  configuration_id text,
  session_id text not null,
  state text not null,
  outcome text,
  completion_id text,
  payload text,
  created_at integer not null,
  completed_at integer,
  outbox_seq integer not null,
  primary key (organisation_id, id)
);
create index automation_runs_by_session on automation_runs (organisation_id, session_id);
create index automation_runs_by_configuration on automation_runs (organisation_id, configuration_id, created_at);
