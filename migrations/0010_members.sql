-- A member is a person or system of an organisation. `owner` of a key is its member's name: a name is taken once and never
-- changes, so an owner that an approval, a vote or a release before this one has stored stands for one member for ever.
create table members (
  id text primary key,
  organisation_id text not null references organisations (id),
  name text not null,
  identity text not null,
  -- The key that made it. Null: the operator, or a release that had no members.
  created_by text,
  created_at integer not null,
  disabled_at integer,
  unique (organisation_id, name)
);
create index members_by_organisation on members (organisation_id, created_at, id);

insert into members (id, organisation_id, name, identity, created_at)
  select 'mbr_' || lower(hex(randomblob(10))), organisation_id, owner, '', min(created_at)
  from api_keys group by organisation_id, owner;

-- For keys that the release before makes: it knows no members.
create trigger api_keys_have_members after insert on api_keys begin
  insert into members (id, organisation_id, name, identity, created_at)
    select 'mbr_' || lower(hex(randomblob(10))), new.organisation_id, new.owner, '', new.created_at
    where not exists (select 1 from members where organisation_id = new.organisation_id and name = new.owner);
end;

-- The member that made the key for another one: for a day the key counts as its maker's.
alter table api_keys add column made_by text;
-- What a limited key may see: a JSON list of projects (null: all), and whether only its member's own sessions. Its hash
-- begins with a word, so that a release that knows no limits does not let it in.
alter table api_keys add column projects text;
alter table api_keys add column own_sessions integer not null default 0;

-- Whether a key that was just made for another member counts as that member's at once.
alter table organisations add column new_keys_count integer not null default 0;

-- Who did what to members, keys and settings of an organisation. Append-only.
create table audit (
  id text primary key,
  organisation_id text not null references organisations (id),
  action text not null,
  subject text not null,
  -- A key's id, or "operator".
  actor text not null,
  detail text not null,
  created_at integer not null
);
create index audit_by_organisation on audit (organisation_id, created_at desc, id desc);
create index audit_by_subject on audit (organisation_id, subject);

-- Who made the session. Null: a release that had no members.
alter table sessions add column member_id text;

-- What model calls have used, by session, day (UTC, days since 1970) and model. Rows stay when their session is erased:
-- they are bills.
create table model_usage (
  organisation_id text not null,
  session_id text not null,
  day integer not null,
  model text not null,
  member_id text,
  project text not null,
  requests integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  money_micros integer not null,
  outbox_seq integer not null,
  primary key (session_id, day, model)
);
create index model_usage_by_day on model_usage (organisation_id, day);
