export const rung: readonly string[] = [
  `create table request_keys (
    scope text not null,
    key text not null,
    body_hash text not null,
    -- Leads to what the first request made.
    made text not null,
    created_at integer not null,
    primary key (scope, key)
  ) without rowid`,
  'create index approvals_by_subject on approvals (subject)',
  `create index runs_open on runs (n) where status not in ('completed', 'failed', 'blocked', 'cancelled')`,
]
