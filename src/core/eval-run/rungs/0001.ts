export const rung: readonly string[] = [
  `create table deadlines (
    name text primary key,
    at integer not null,
    attempt integer not null default 0,
    -- The instance that is at work on it.
    runner text
  )`,
  `create table outbox (
    seq integer primary key,
    kind text not null,
    payload text not null,
    created_at integer not null
  )`,
  `create trigger outbox_promise after insert on outbox begin
  insert or ignore into deadlines (name, at) values ('outbox', new.created_at + 5000);
end`,
  // One row: how far libSQL has told us that it is.
  'create table outbox_mark (watermark integer not null)',
  'insert into outbox_mark (watermark) values (0)',
  `create table dead_letters (
    seq integer primary key,
    kind text not null,
    payload text,
    error text not null,
    at integer not null
  )`,
  // One row.
  `create table eval_run (
    id text primary key,
    organisation_id text not null,
    project text not null,
    dataset text not null,
    digest text not null,
    -- Who has made it: its sessions are made in this name.
    caller text not null,
    member_id text,
    workers integer not null,
    budget text not null,
    stream_logs integer not null,
    verbose integer not null,
    problems text not null,
    -- running, completed, cancelled, stopped; erased: to callers it is already gone.
    status text not null,
    reason text,
    -- Of its results, once it has ended.
    hash text,
    created_at integer not null,
    ended_at integer
  )`,
  // Those that are not run only judge.
  `create table targets (
    n integer primary key,
    name text not null unique,
    is_run integer not null,
    body text not null
  )`,
  'create table cases (id text primary key, body text not null)',
  `create table attempts (
    n integer primary key,
    case_id text not null,
    target text not null,
    repetition integer not null,
    -- How often it was begun anew.
    attempt integer not null default 0,
    state text not null default 'pending',
    session_id text,
    turn_id text,
    -- When it has taken too long.
    due_at integer,
    -- Millionths of a US dollar that are set aside for it, and that it has used.
    reserved_micros integer not null default 0,
    spent_micros integer not null default 0,
    -- What its target has answered, before it is scored.
    response text,
    -- What was found out for its evaluators so far.
    findings text,
    started_at integer,
    ended_at integer,
    score real,
    verdict text,
    error text,
    result text
  )`,
  `create index attempts_open on attempts (state, n) where state <> 'done'`,
  // Sessions that an attempt has left: they are closed, and erased with the run.
  'create table sessions (id text primary key, n integer not null, is_closed integer not null default 0)',
  `create table events (
    seq integer primary key,
    at integer not null,
    kind text not null,
    data text not null,
    -- What is told once, however often it happens.
    once text unique
  )`,
]
