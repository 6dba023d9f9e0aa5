export const rung: readonly string[] = [
  // The revisions that its session began with: JSON of {kind, name, sha256}.
  'alter table attempts add column tried text',
]
