import { approvalSchema } from './approval-schema.ts'
import { attemptSchema } from './attempts.ts'
import { budgetSchema } from './budget.ts'
import { grantSchema } from './grants.ts'
import { operationSchema } from './operations.ts'

export const runSchema = [
  ...approvalSchema,
  ...grantSchema,
  ...operationSchema,
  ...attemptSchema,
  ...budgetSchema,
  `create table runs (
    n integer primary key,
    id text not null unique,
    intent text not null,
    workflow text,
    phase text,
    agent text,
    subagent text,
    model text not null,
    status text not null,
    reason text,
    -- Made by a prompt, so it ends with its last turn.
    implicit integer not null,
    -- What stands in the way of going on, as a JSON list of {what, why}.
    waits_for text not null default '[]',
    latest_checkpoint_id text,
    created_at integer not null,
    updated_at integer not null,
    completed_at integer
  )`,
  `create table run_events (
    run_id text not null,
    seq integer not null,
    at integer not null,
    kind text not null,
    -- The bytes that the hash covers.
    data text not null,
    previous_hash text not null,
    hash text not null,
    primary key (run_id, seq)
  ) without rowid`,
  `create table checkpoints (
    n integer primary key,
    id text not null unique,
    run_id text not null,
    label text not null,
    state text not null,
    created_at integer not null
  )`,
  'create table run_keys (key text primary key, body text not null, run_id text not null)',
  'alter table turns add column run_id text',
  'create index turns_by_run on turns (run_id)',
  'alter table automation_run add column run_id text',
] as const
