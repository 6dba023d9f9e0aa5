export const rung: readonly string[] = [
  // Since when the time of a step counts anew: the machine was suspended. Null: since it began.
  'alter table execution_steps add column renewed_at integer',
]
