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
  session_id text,
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
