export const rung: readonly string[] = [
  `create table model_calls (
    id text primary key,
    -- Null: a helper call, outside of a turn.
    turn_id text,
    model text not null,
    -- The most that it can use.
    input_tokens integer not null,
    output_tokens integer not null,
    money_micros integer not null,
    begun_at integer not null,
    -- Nothing was heard of it until then: it counts as reserved.
    expires_at integer not null,
    settled_at integer
  ) without rowid`,
  'create index model_calls_open on model_calls (expires_at) where settled_at is null',
  'create index model_calls_begun on model_calls (begun_at)',
  // Null: none of its model calls has passed the control plane.
  'alter table turns add column counted_tokens integer',
  'alter table turns add column reported_tokens integer not null default 0',
]
