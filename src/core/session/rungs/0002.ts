export const rung: readonly string[] = [
  `create table automation_run (
    id text primary key,
    state text not null,
    outcome text,
    completion_id text,
    payload text,
    created_at integer not null,
    completed_at integer
  )`,
  `create table env_requests (
    n integer primary key,
    id text not null unique,
    keys text not null,
    state text not null,
    asked_at integer not null,
    closed_at integer
  )`,
  `create table env_values (
    key text primary key,
    sealed text not null,
    kind text not null,
    updated_at integer not null
  )`,
  `create table snapshots (
    n integer primary key,
    id text not null unique,
    target text not null,
    bytes integer not null,
    message text not null,
    created_at integer not null
  )`,
  `create table model_usage (
    model text primary key,
    requests integer not null,
    input_tokens integer not null,
    output_tokens integer not null
  )`,
  'alter table session add column configuration_id text',
  `alter table session add column mode text not null default 'scratch'`,
  `alter table session add column client_type text not null default 'api'`,
  'alter table session add column reasoning_effort text',
  'alter table session add column system_prompt text',
  `alter table session add column system_prompt_mode text not null default 'replace'`,
  'alter table session add column snapshot_id text',
  `alter table session add column env_files text not null default '[]'`,
]
