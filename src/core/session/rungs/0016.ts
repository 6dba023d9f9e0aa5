export const rung: readonly string[] = [
  // What the sandbox says of its walls, with its generation. Null: no agent has said it.
  'alter table place add column enclosure text',
]
