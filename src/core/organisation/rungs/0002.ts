export const rung: readonly string[] = [
  'alter table creations add column erased integer not null default 0',
]
