export const rung: readonly string[] = [
  // Of a tool that changes files: the hash of its input and of what it said that it did, as the agent heard it. Null: a
  // tool that does not, or an older agent.
  'alter table told_parts add column record_hash text',
]
