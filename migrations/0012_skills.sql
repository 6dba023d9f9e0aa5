-- Skills have their record here: no session owns them. member_id is '' for what the whole project shares.
create table skills (
  id text primary key,
  organisation_id text not null references organisations (id),
  project text not null,
  scope text not null,
  member_id text not null,
  name text not null,
  description text not null,
  current_version integer,
  created_by text not null,
  created_at integer not null,
  updated_at integer not null,
  unique (organisation_id, project, scope, member_id, name)
);
create index skills_by_organisation on skills (organisation_id, created_at desc, id desc);

-- What a version says never changes; its state does.
create table skill_versions (
  skill_id text not null,
  version integer not null,
  state text not null,
  description text not null,
  compatibility text not null,
  source text not null,
  sha256 text not null,
  created_by text not null,
  created_at integer not null,
  primary key (skill_id, version)
);

-- version null: the current one, whichever that is.
create table skill_attachments (
  skill_id text not null,
  target_type text not null,
  target_key text not null,
  version integer,
  created_by text not null,
  created_at integer not null,
  primary key (skill_id, target_type, target_key)
);

-- Append-only, numbered by skill.
create table skill_changes (
  skill_id text not null,
  seq integer not null,
  act text not null,
  version integer,
  target text,
  actor text not null,
  reason text not null,
  created_at integer not null,
  primary key (skill_id, seq)
);

-- What somebody proposes to change in a skill. The text never changes; the state does, by acts that name who and why.
create table skill_proposals (
  id text primary key,
  skill_id text not null,
  state text not null,
  base_version integer,
  description text not null,
  compatibility text not null,
  source text not null,
  sha256 text not null,
  hash text not null,
  rationale text not null,
  signal text not null,
  diff text not null,
  asker_kind text not null,
  asker_id text not null,
  asker_member text,
  quorum integer not null,
  group_keys text,
  resolution text,
  application text,
  created_at integer not null
);
create index skill_proposals_by_skill on skill_proposals (skill_id, created_at desc, id desc);

-- One per member: quorums count people.
create table skill_votes (
  proposal_id text not null,
  member_id text not null,
  key_id text not null,
  reason text not null,
  at integer not null,
  primary key (proposal_id, member_id)
);
