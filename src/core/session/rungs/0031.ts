export const rung: readonly string[] = [
  // One row, in the session of an eval run's attempt.
  'create table attempt_terms (terms text not null)',
]
