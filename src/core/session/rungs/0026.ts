export const rung: readonly string[] = [
  // A value that never enters the sandbox: JSON of the hosts to whose requests it is added, and how.
  `alter table env_values add column inject text`,
]
