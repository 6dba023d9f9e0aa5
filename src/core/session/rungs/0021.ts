export const rung: readonly string[] = [
  // Of the changes that the policy names: the phases that have artifacts (JSON), as far as the session has heard.
  `create table known_changes (
    change text primary key,
    present text not null,
    heard_at integer not null
  ) without rowid`,
]
