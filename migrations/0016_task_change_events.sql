-- What tools have changed, one row for each change of one file and each grade of its evidence. Append-only: of several
-- rows with one key the one of the highest rank counts.
create table task_change_events (
  organisation_id text not null,
  session_id text not null,
  run_id text not null,
  turn_id text,
  event_id text not null,
  -- SHA-256 of the import key: the key itself has NUL in it and is in the event, escaped as JSON does.
  import_key_hash text,
  rank integer not null,
  relative_path text not null,
  operation text not null,
  confidence text not null,
  evidence_proof text not null,
  source text not null,
  source_provider text not null,
  before_sha256 text,
  after_sha256 text,
  supersedes_event_id text,
  -- As it was hashed.
  event text not null,
  hash text not null,
  created_at integer not null,
  outbox_seq integer not null,
  primary key (run_id, event_id)
);
create index task_change_events_by_session on task_change_events (organisation_id, session_id);
create unique index task_change_events_by_key on task_change_events (run_id, import_key_hash, rank)
  where import_key_hash is not null;

-- Which sessions hold which texts of changes: a text stays while one of them does.
create table change_texts (
  organisation_id text not null,
  session_id text not null,
  sha256 text not null,
  size integer not null,
  created_at integer not null,
  outbox_seq integer not null,
  primary key (organisation_id, session_id, sha256)
);
