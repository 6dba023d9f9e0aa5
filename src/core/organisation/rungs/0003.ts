export const rung: readonly string[] = [
  'create table run_claims (run_id text primary key, session_id text not null)',
]
