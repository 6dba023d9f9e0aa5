export const rung: readonly string[] = [
  // What came of the skills that the session began with, once per run, skill and outcome.
  `create table skill_usage (
    n integer primary key,
    id text not null,
    skill_id text not null,
    version integer not null,
    run_id text not null,
    outcome text not null,
    actor text not null,
    note text not null,
    created_at integer not null,
    unique (run_id, skill_id, outcome)
  )`,
]
