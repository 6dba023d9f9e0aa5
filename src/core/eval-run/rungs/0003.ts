export const rung: readonly string[] = [
  // What its session began with beside them: JSON of {model, memories}.
  'alter table attempts add column began text',
]
