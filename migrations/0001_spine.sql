-- Everything here but organisations, api_keys and blobs is a projection: the session's own SQLite is the record, and
-- outbox_seq (the session's row number) keeps a repeated or late statement from undoing a newer one.

create table organisations (
  id text primary key,
  name text not null,
  created_at integer not null
);

create table api_keys (
  id text primary key,
  organisation_id text not null references organisations (id),
  name text not null,
  owner text not null,
  scopes text not null,
  secret_hash text not null unique,
  created_at integer not null,
  expires_at integer,
  revoked_at integer,
  last_used_at integer
);
create index api_keys_by_organisation on api_keys (organisation_id, created_at);

create table sessions (
  id text primary key,
  organisation_id text not null,
  project text not null,
  title text not null,
  status text not null,
  provider text not null,
  sandbox_state text not null,
  generation integer not null,
  created_at integer not null,
  closed_at integer,
  outbox_seq integer not null
);
create index sessions_by_organisation on sessions (organisation_id, created_at desc, id desc);

create table turns (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  state text not null,
  reason text,
  input_tokens integer not null,
  output_tokens integer not null,
  created_at integer not null,
  started_at integer,
  ended_at integer,
  outbox_seq integer not null
);
create index turns_by_session on turns (organisation_id, session_id, created_at);

create table session_tool_invocations (
  session_id text not null,
  tool_name text not null,
  tool_call_id text not null,
  organisation_id text not null,
  operation_id text not null,
  source text not null,
  generation integer not null,
  status text not null default 'pending',
  attempts integer not null,
  input text not null,
  output text,
  error text,
  duration_ms integer,
  started_at integer not null,
  completed_at integer,
  created_at integer not null,
  outbox_seq integer not null,
  primary key (session_id, tool_name, tool_call_id)
);
create index invocations_by_organisation on session_tool_invocations (organisation_id, created_at);

create table artifacts (
  id text primary key,
  organisation_id text not null,
  session_id text not null,
  operation_id text not null,
  path text not null,
  content_type text not null,
  size integer not null,
  sha256 text not null,
  created_at integer not null,
  outbox_seq integer not null
);
create index artifacts_by_session on artifacts (organisation_id, session_id);
create index artifacts_by_content on artifacts (organisation_id, sha256);

-- A blob exists once its index row does: chunks are written first.
create table blob_index (
  organisation_id text not null,
  sha256 text not null,
  size integer not null,
  created_at integer not null,
  primary key (organisation_id, sha256)
);
create table blobs (
  organisation_id text not null,
  sha256 text not null,
  chunk integer not null,
  bytes blob not null,
  primary key (organisation_id, sha256, chunk)
);

-- How far libSQL has each session's outbox. Written in the same batch as the rows, so it says the truth even after
-- a server has lost its last writes.
create table outbox_watermarks (
  session_id text primary key,
  seq integer not null
);
