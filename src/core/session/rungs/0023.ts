export const rung: readonly string[] = [
  // The tool parts that came over the link while their turn ran, with their ends. What the sandbox's own database says of
  // them afterwards is compared with these.
  `create table told_parts (
    part_id text primary key,
    turn_id text not null,
    message_id text not null,
    session_id text not null,
    tool text not null,
    call_id text not null,
    -- completed or failed. Null: its end has not come.
    ended text,
    -- Of the input as it is stored, without secrets. Null: it was shortened on its way.
    input_hash text,
    -- Who used it inside OpenCode. Null: an agent that does not say.
    agent text
  ) without rowid`,
  'create index told_parts_turn on told_parts (turn_id)',
  // The session of OpenCode that a prompt was sent to, as the agent said when it had sent it.
  'alter table turns add column opencode_session_id text',
  `create table collects (
    n integer primary key,
    id text not null unique,
    turn_id text not null,
    run_id text not null,
    generation integer not null,
    mode text not null,
    after_message text,
    -- asked, stored or failed
    state text not null,
    outcome text,
    reason text,
    candidates integer not null default 0,
    imported integer not null default 0,
    statistics text,
    diagnostics text not null default '[]',
    created_at integer not null,
    ended_at integer
  )`,
  'create index collects_run on collects (run_id, n)',
  'create index collects_turn on collects (turn_id, mode)',
  // Append-only: a better one of the same key stands beside the one that it supersedes.
  `create table change_events (
    n integer primary key,
    id text not null,
    run_id text not null,
    turn_id text,
    -- SHA-256 of the import key, which has NUL in it. Null: it has no key.
    key_hash text,
    rank integer not null,
    path text not null,
    event text not null,
    hash text not null,
    created_at integer not null,
    unique (run_id, id)
  )`,
  `create unique index change_events_key on change_events (run_id, key_hash, rank) where key_hash is not null`,
  // What people have said of the changes of a file: about which state of it, and by which operation it is taken back.
  `create table change_decisions (
    n integer primary key,
    run_id text not null,
    path text not null,
    -- The hash of the newest event that it is about.
    about text not null,
    -- accepted or rejected
    decision text not null,
    operation_id text,
    actor text not null,
    reason text not null,
    created_at integer not null
  )`,
  'create index change_decisions_file on change_decisions (run_id, path)',
  // The texts of changes, by content; the bytes are in the blob store.
  `create table change_texts (
    sha256 text primary key,
    size integer not null,
    created_at integer not null
  ) without rowid`,
]
