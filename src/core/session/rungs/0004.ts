export const rung: readonly string[] = [
  `create table sandboxes (
    generation integer primary key,
    -- What it starts from. Null: the repository, or nothing.
    snapshot_id text,
    -- The instance that has sent its creation.
    sent_by text,
    -- The organisation's grant ends then.
    ends_at integer,
    -- The provider ends it then, unless it is extended.
    lease_until integer,
    connected_at integer,
    ready_at integer,
    ended_at integer,
    outcome text,
    reason text,
    -- The model knows what this one is without.
    told_at integer,
    -- The idle time in which its snapshots have failed, and how often.
    kept_since integer,
    kept_tries integer not null default 0
  )`,
  `create table sandbox_start (
    creates integer not null default 0,
    boots integer not null default 0,
    losses integer not null default 0,
    failures text not null default '[]',
    retry_at integer
  )`,
  'insert into sandbox_start default values',
  'alter table snapshots add column generation integer not null default 0',
  'create table snapshot_orders (id text primary key, by text not null, stale integer not null default 0)',
  'alter table session add column image text',
  `alter table session add column limits text not null default '{}'`,
  'alter table session add column idle_timeout_seconds integer',
  `alter table session add column replacement text not null default 'manual'`,
  `insert into sandboxes (generation, ready_at)
     select generation, created_at from session where provider <> 'none'`,
  `update deadlines set name = name || ':' || (select generation from session) where name = 'sandbox.create'`,
]
