export const rung: readonly string[] = [
  // JSON: what the session has beside the agent contract. Sessions of before have nothing.
  `alter table session add column equipment text not null default '[]'`,
]
