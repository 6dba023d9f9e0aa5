-- A projection of the session in whose run a skill was used.
create table skill_usage (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  run_id text not null,
  skill_id text not null,
  version integer not null,
  outcome text not null,
  actor text not null,
  note text not null,
  created_at integer not null,
  outbox_seq integer not null
);
create index skill_usage_by_skill on skill_usage (organisation_id, skill_id, created_at desc, id desc);
create index skill_usage_by_session on skill_usage (organisation_id, session_id);

-- The member as whom a new key of the asker counts.
alter table skill_proposals add column asker_counts_as text;
