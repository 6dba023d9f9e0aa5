-- Which revisions were released by which run of a suite, or by people's word against it.
create table promotions (
  id text primary key,
  organisation_id text not null,
  project text not null,
  dataset text not null,
  kind text not null,
  name text not null,
  sha256 text not null,
  -- passed, asked, overridden, refused
  state text not null,
  baseline_run_id text not null,
  eval_run_id text,
  target text,
  run_hash text,
  reasons text not null,
  asked_by text not null,
  asker_member text,
  asker_counts_as text,
  ask_reason text,
  quorum integer not null default 1,
  group_keys text,
  resolved_by text,
  resolve_reason text,
  created_at integer not null,
  updated_at integer not null
);
create unique index promotions_by_revision on promotions (organisation_id, project, dataset, kind, name, sha256);
create index promotions_by_time on promotions (organisation_id, created_at desc, id desc);

create table promotion_votes (
  promotion_id text not null,
  member_id text not null,
  key_id text not null,
  reason text not null,
  at integer not null,
  primary key (promotion_id, member_id)
);

-- Of the suite that its run was of. Baselines from before guard nothing.
alter table eval_baselines add column digest text not null default '';

-- The revisions that every attempt of a target had: JSON of {target, kind, name, sha256}.
alter table eval_runs add column tried text not null default '[]';
create index eval_runs_by_digest on eval_runs (organisation_id, digest, created_at desc);
