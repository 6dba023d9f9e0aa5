export const rung: readonly string[] = [
  `create table budget_corrections (
    n integer primary key,
    key text unique,
    body text not null,
    project text not null,
    correction text not null
  )`,
]
