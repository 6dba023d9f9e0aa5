export const rung: readonly string[] = [
  // The steps that came over the link when they were done, with the two trees of OpenCode's snapshots.
  `create table told_steps (
    n integer primary key,
    turn_id text not null,
    part_id text not null unique,
    message_id text not null,
    from_tree text,
    to_tree text
  )`,
  'create index told_steps_turn on told_steps (turn_id, n)',
  // Whether a bundle had it.
  'alter table told_parts add column found integer not null default 0',
  'create index told_parts_message on told_parts (message_id)',
  // Of a collect while the turn ran: the last message that it may have. Null: the turn had ended.
  'alter table collects add column until_message text',
  // The last message of its bundle, if there may be more after it.
  'alter table collects add column reached text',
  // Of a reject: the hunks that are taken back, as a JSON list. Null: the whole file.
  'alter table change_decisions add column hunks text',
]
