-- Policies and webhooks have their record here: no session owns them. webhook_deliveries is a projection of the session
-- whose event is delivered.

-- Append-only: a change is the next version, and so is a removal (source null). project '' is the whole organisation.
create table policies (
  organisation_id text not null references organisations (id),
  project text not null,
  version integer not null,
  name text not null,
  format text not null,
  source text,
  created_by text not null,
  created_at integer not null,
  primary key (organisation_id, project, version)
);

-- project '' is every project.
create table webhooks (
  id text primary key,
  organisation_id text not null references organisations (id),
  project text not null,
  url text not null,
  events text not null,
  sealed_secret text not null,
  created_at integer not null
);
create index webhooks_by_organisation on webhooks (organisation_id, created_at desc, id desc);

-- One row per event and webhook.
create table webhook_deliveries (
  webhook_id text not null,
  id text not null,
  organisation_id text not null,
  session_id text not null,
  run_id text,
  event text not null,
  state text not null,
  attempts integer not null,
  last_status integer,
  error text,
  created_at integer not null,
  updated_at integer not null,
  outbox_seq integer not null,
  primary key (webhook_id, id)
);
create index webhook_deliveries_by_webhook on webhook_deliveries (organisation_id, webhook_id, created_at desc, id desc);
create index webhook_deliveries_by_session on webhook_deliveries (organisation_id, session_id);
