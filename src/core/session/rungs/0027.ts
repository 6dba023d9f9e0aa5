export const rung: readonly string[] = [
  // The abilities that executions of this session run, as they were when they began: what runs is this copy.
  `create table ability_copies (
    hash text not null,
    name text not null,
    version integer,
    definition text not null,
    files text not null,
    stored_at integer not null,
    primary key (hash, name)
  )`,
  // One ability at work. planned: its plan waits for a person. One without a parent is open at most.
  `create table executions (
    n integer primary key,
    id text not null unique,
    ability text not null,
    hash text not null,
    version integer,
    parent_id text,
    parent_step text,
    run_id text not null,
    state text not null,
    starter text not null,
    inputs text not null,
    words text not null,
    plan_hash text not null,
    plan_approval_id text,
    error text,
    deadline_at integer,
    started_at integer not null,
    ended_at integer
  )`,
  `create index executions_open on executions (n) where state in ('planned', 'running')`,
  `create unique index executions_one on executions (state in ('planned', 'running'))
     where parent_id is null and state in ('planned', 'running')`,
  `create table execution_steps (
    execution_id text not null,
    position integer not null,
    id text not null,
    part text not null,
    type text not null,
    state text not null default 'pending',
    tries integer not null default 0,
    nudges integer not null default 0,
    subject text,
    output text,
    error text,
    exit_code integer,
    stops integer not null default 0,
    deadline_at integer,
    started_at integer,
    ended_at integer,
    primary key (execution_id, position),
    unique (execution_id, id)
  )`,
  `create index execution_steps_moving on execution_steps (execution_id) where state in ('running', 'asking')`,
  // Inputs that are secret, sealed. They are kept out of every record.
  `create table execution_secrets (
    execution_id text not null,
    name text not null,
    sealed text not null,
    primary key (execution_id, name)
  )`,
  // Which of its options a person has chosen.
  `alter table approvals add column option text`,
]
