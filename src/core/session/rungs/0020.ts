export const rung: readonly string[] = [
  // The member as whom a new key of the asker counts.
  'alter table approvals add column asker_counts_as text',
  // The member whose vote has resolved it.
  'alter table approvals add column actor_member text',
]
