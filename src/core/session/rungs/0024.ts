export const rung: readonly string[] = [
  // JSON: of the memories that the session may read and add to. Sessions of before have none.
  `alter table session add column memory_scopes text not null default '[]'`,
]
