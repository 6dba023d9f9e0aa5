-- Projections of eval runs and of the results of their attempts.
create table eval_runs (
  id text primary key,
  organisation_id text not null,
  project text not null,
  member_id text,
  dataset text not null,
  digest text not null,
  targets text not null,
  status text not null,
  reason text,
  attempts integer not null,
  passed integer not null,
  errors integer not null,
  score real,
  hash text,
  created_at integer not null,
  ended_at integer,
  outbox_seq integer not null
);
create index eval_runs_by_organisation on eval_runs (organisation_id, created_at desc, id desc);

create table eval_results (
  eval_run_id text not null,
  n integer not null,
  organisation_id text not null,
  -- Where the attempt has worked. The result belongs to its run and outlives that session.
  attempt_session_id text,
  eval_id text not null,
  target text not null,
  repetition integer not null,
  score real not null,
  verdict text not null,
  error text,
  -- A line of the results as JSON.
  row text not null,
  created_at integer not null,
  outbox_seq integer not null,
  primary key (eval_run_id, n)
);
create index eval_results_by_organisation on eval_results (organisation_id, eval_run_id);

-- Which run of a suite others are compared with, and by which rule.
create table eval_baselines (
  organisation_id text not null,
  project text not null,
  dataset text not null,
  eval_run_id text not null,
  target text not null,
  rule text not null,
  -- Kinds of things whose promotion needs a run that is not worse.
  gates text not null,
  set_by text not null,
  set_at integer not null,
  primary key (organisation_id, project, dataset)
);
