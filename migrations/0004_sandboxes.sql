-- Projections of the organisation's own books: every place that was ever held for a sandbox, with what it cost, and what
-- the firewall did or was told. outbox_seq is the organisation's row number. They outlive their session: they are bills.

create table sandbox_reservations (
  organisation_id text not null,
  session_id text not null,
  generation integer not null,
  provider text not null,
  project text not null,
  granted_at integer not null,
  connected_at integer,
  ended_at integer,
  outcome text,
  reason text,
  -- Booked: for the whole lifetime while it lives, for the real time once it has ended.
  seconds integer not null,
  money real not null,
  outbox_seq integer not null,
  primary key (organisation_id, session_id, generation)
);
create index sandbox_reservations_by_time on sandbox_reservations (organisation_id, granted_at);

create table sandbox_actions (
  organisation_id text not null,
  outbox_seq integer not null,
  action text not null,
  session_id text,
  generation integer,
  provider text,
  reason text not null,
  actor text not null,
  created_at integer not null,
  primary key (organisation_id, outbox_seq)
);
