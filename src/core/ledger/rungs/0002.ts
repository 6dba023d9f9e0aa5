export const rung: readonly string[] = [
  // Null in what an earlier release has recorded.
  'alter table dead_letters add column organisation_id text',
]
