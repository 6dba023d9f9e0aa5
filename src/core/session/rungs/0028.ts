export const rung: readonly string[] = [
  // OpenCode's agent that does the turn, where it is not the session's own.
  `alter table turns add column agent text`,
  // The abilities that workflow steps may call, as they were when the execution began: JSON of name and hash.
  `alter table executions add column nested text not null default '{}'`,
]
