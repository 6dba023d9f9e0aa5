export const rung: readonly string[] = [
  // As their configurations were when they were last read.
  `create table warm_pools (
    configuration_id text primary key,
    size integer not null default 0,
    version text not null default '',
    provider text not null default 'none',
    project text not null default '',
    -- So many in a row never became ready.
    failures integer not null default 0,
    retry_at integer,
    reason text
  )`,
  `create table warm_sessions (
    session_id text primary key,
    configuration_id text not null,
    -- Of everything that it was booted with.
    version text not null,
    state text not null,
    -- The creation that has got it.
    claimed_for text unique,
    created_at integer not null,
    changed_at integer not null,
    ready_at integer
  )`,
  'create index warm_sessions_by_state on warm_sessions (configuration_id, state)',
  // It was decided that this creation gets no warm session: asked again it hears the same.
  'alter table creations add column is_cold integer not null default 0',
]
