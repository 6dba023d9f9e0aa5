export const rung: readonly string[] = [
  // Who made the session. Null: a release that had no members.
  'alter table session add column member_id text',
]
