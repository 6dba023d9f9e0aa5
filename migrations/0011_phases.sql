-- Artifacts of the phases of changes. Append-only: a save is the next revision. n counts the saves of one change, so that
-- a later save of an earlier phase (position) tells that what stands on it may be stale.
create table phase_artifacts (
  organisation_id text not null,
  project text not null,
  change text not null,
  phase text not null,
  position integer not null,
  revision integer not null,
  n integer not null,
  content text not null,
  sha256 text not null,
  bytes integer not null,
  -- A key's id, or the session's in which an agent saved it.
  saved_by text not null,
  member_id text not null,
  created_at integer not null,
  primary key (organisation_id, project, change, phase, revision)
);
create unique index phase_artifacts_by_save on phase_artifacts (organisation_id, project, change, n);

-- One member's last word on one revision.
create table phase_approvals (
  organisation_id text not null,
  project text not null,
  change text not null,
  phase text not null,
  revision integer not null,
  sha256 text not null,
  decision text not null,
  reason text not null,
  key_id text not null,
  member_id text not null,
  owner text not null,
  created_at integer not null,
  primary key (organisation_id, project, change, phase, revision, member_id)
);
