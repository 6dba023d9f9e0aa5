-- Projections of the sessions' runs. run_events holds every entry of every timeline with its hash, and the signature of
-- the head that it was: the newest row of a run is its signed head.

create table runs (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  project text not null,
  intent text not null,
  workflow text,
  phase text,
  agent text,
  subagent text,
  adapter text not null,
  model text not null,
  status text not null,
  outcome text,
  reason text,
  latest_checkpoint_id text,
  created_at integer not null,
  updated_at integer not null,
  completed_at integer,
  outbox_seq integer not null
);
create index runs_by_organisation on runs (organisation_id, created_at desc, id desc);
create index runs_by_session on runs (organisation_id, session_id);

create table run_events (
  run_id text not null,
  seq integer not null,
  organisation_id text not null,
  session_id text not null,
  at integer not null,
  kind text not null,
  data text not null,
  previous_hash text not null,
  hash text not null,
  signature text not null,
  outbox_seq integer not null,
  primary key (run_id, seq)
);
create index run_events_by_kind on run_events (organisation_id, kind, at);
create index run_events_by_session on run_events (session_id);

alter table turns add column run_id text;

create table approvals (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  run_id text not null,
  kind text not null,
  state text not null,
  title text not null,
  asker text not null,
  reason text not null,
  rule text not null,
  operation_hash text not null,
  quorum integer not null,
  created_at integer not null,
  deadline_at integer not null,
  resolved_at integer,
  actor text,
  resolution_reason text,
  outbox_seq integer not null
);
create index approvals_by_organisation on approvals (organisation_id, state, created_at desc, id desc);

create table operation_attempts (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  run_id text not null,
  operation_id text not null,
  approval_id text,
  sequence integer not null,
  executor text not null,
  status text not null,
  suspect integer not null,
  actor text,
  reason text,
  reserved_at integer not null,
  finished_at integer,
  outbox_seq integer not null
);
create index attempts_by_run on operation_attempts (organisation_id, run_id);
