export const rung: readonly string[] = [
  // What model calls have used, by day (UTC, days since 1970) and model: the bills are made of these rows.
  `create table usage_days (
    day integer not null,
    model text not null,
    requests integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    money_micros integer not null,
    primary key (day, model)
  ) without rowid`,
]
