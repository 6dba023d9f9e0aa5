-- An organisation's own credentials at a sandbox provider: sealed JSON of their fields, never returned.

create table provider_credentials (
  organisation_id text not null references organisations (id),
  provider text not null,
  sealed text not null,
  updated_by text not null,
  updated_at integer not null,
  primary key (organisation_id, provider)
);

-- How many sandboxes of a configuration are kept booted for sessions to come.
alter table configurations add column warm_pool_size integer not null default 0;
