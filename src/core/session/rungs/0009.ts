export const rung: readonly string[] = [
  `create table worktree_steps (
    n integer primary key,
    command_id text not null unique,
    attempt_id text not null,
    kind text not null,
    generation integer not null,
    actor text not null,
    -- open, done, failed or lost
    state text not null,
    asked_at integer not null,
    ended_at integer
  )`,
  'create index worktree_steps_by_attempt on worktree_steps (attempt_id)',
]
