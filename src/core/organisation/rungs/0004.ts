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
  // One row: how far libSQL has told us that it is.
  'create table outbox_mark (watermark integer not null)',
  'insert into outbox_mark (watermark) values (0)',
  // Project '' is the organisation itself.
  'create table budgets (project text primary key, limits text not null, set_by text not null)',
  `create table budget_used (
    project text primary key,
    wallMs integer not null default 0,
    toolCalls integer not null default 0,
    tokens integer not null default 0,
    moneyMicros integer not null default 0
  )`,
  // What a live session may use before it asks again. One per session: no more than that can be stranded.
  `create table slices (
    session_id text primary key,
    project text not null,
    number integer not null,
    granted text not null,
    settled text not null,
    -- What was settled of the slice before it, when this one was first asked for.
    carried text not null
  )`,
  // Project '' is the organisation itself.
  'create table limits (project text primary key, body text not null)',
  `create table reservations (
      session_id text not null,
      generation integer not null,
      provider text not null,
      project text not null,
      -- USD for one hour, as it was when the place was granted.
      price real not null,
      granted_at integer not null,
      -- Until when it is booked: first the end of its lifetime, then its real end. Null while an orphan runs.
      until integer,
      -- How often the provider may have been asked to create it.
      attempts integer not null,
      connected_at integer,
      -- Since when the provider does not list it.
      missing_since integer,
      -- Since when it is known to run without a reservation.
      orphan_since integer,
      ended_at integer,
      outcome text,
      reason text,
      primary key (session_id, generation)
    )`,
  'create index reservations_by_grant on reservations (granted_at)',
  'create index reservations_by_end on reservations (until)',
  'create index reservations_open on reservations (ended_at) where ended_at is null',
  `create table breakers (
      provider text primary key,
      failures integer not null,
      -- How often in a row it has opened.
      openings integer not null,
      open_until integer,
      -- The one sandbox that may try while it is half open, and until when it is waited for.
      trial text,
      trial_until integer,
      last_reason text
    )`,
  // Name own, or deployment: what this object has heard from the deployment's.
  `create table switches (
      name text primary key,
      version integer not null,
      is_on integer not null,
      reason text not null,
      changed_at integer not null,
      changed_by text not null
    )`,
  // Only in the deployment's object: who must be told of its switch.
  'create table members (organisation_id text primary key, told_version integer not null)',
]
