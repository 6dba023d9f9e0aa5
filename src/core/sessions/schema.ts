import { deadlineSchema } from '../deadlines.ts'
import { callTriggers } from '../gateway/call-rows.ts'
import { outboxSchema, promiseTrigger } from '../outbox.ts'
import { runSchema } from '../runs/schema.ts'
import { deliverySchema } from '../webhooks/deliveries.ts'
import { automationSchema } from './automation.ts'
import { envSchema } from './env.ts'
import { generationSchema } from './generations.ts'
import { sliceSchema } from './slice.ts'
import { policySchema } from './policy-record.ts'
import { secretsSchema } from './secrets.ts'
import { snapshotOrderSchema, snapshotSchema } from './snapshots.ts'
import { startSchema } from './start.ts'
import { usageSchema } from './usage.ts'

/** The session's own database. Each entry is one rung, applied once, never edited after a release. */
export const sessionLadder: readonly (readonly string[])[] = [
  [
    ...deadlineSchema,
    ...outboxSchema,
    `create table session (
      id text primary key,
      organisation_id text not null,
      key_id text not null,
      project text not null,
      title text not null,
      status text not null,
      provider text not null,
      sandbox_state text not null,
      sandbox_reason text,
      generation integer not null,
      repository_url text,
      repository_ref text,
      repository_token text,
      model text,
      gate text not null,
      trust_project_config integer not null,
      marker_nonce text not null,
      created_at integer not null,
      closed_at integer
    )`,
    'create table events (seq integer primary key, at integer not null, kind text not null, data text not null)',
    // The last event stored of each generation: what an agent sends again is dropped here.
    'create table agent_cursors (generation integer primary key, seq integer not null)',
    `create table calls (
      n integer primary key,
      tool text not null,
      tool_call_id text not null,
      operation_id text not null,
      args text not null,
      args_hash text not null,
      state text not null,
      runner text,
      generation integer not null,
      attempts integer not null,
      conflicts integer not null default 0,
      response text,
      error text,
      started_at integer not null,
      settled_at integer,
      unique (tool, tool_call_id)
    )`,
    `create index calls_pending on calls (state) where state = 'pending'`,
    `create table commands (
      n integer primary key,
      id text not null unique,
      generation integer not null,
      kind text not null,
      body text not null,
      state text not null,
      ok integer,
      result text,
      created_at integer not null
    )`,
    `create index commands_open on commands (n) where state = 'open'`,
    `create table turns (
      n integer primary key,
      id text not null unique,
      state text not null,
      prompt text not null,
      message_id text not null,
      text text,
      reason text,
      abort_requested integer not null default 0,
      input_tokens integer not null default 0,
      output_tokens integer not null default 0,
      created_at integer not null,
      started_at integer,
      ended_at integer
    )`,
    `create index turns_active on turns (n) where state in ('queued', 'running')`,
    'create table prompt_keys (key text primary key, body text not null, turn_id text not null, created_at integer not null)',
    `create table asks (
      n integer primary key,
      id text not null unique,
      generation integer not null,
      turn_id text,
      tool text not null,
      call_id text not null,
      input text not null,
      input_hash text not null,
      state text not null,
      decision text,
      reason text,
      actor text,
      asked_at integer not null,
      deadline_at integer,
      answered_at integer
    )`,
    `create index asks_open on asks (deadline_at) where state = 'open'`,
    `create table artifacts (
      n integer primary key,
      id text not null unique,
      operation_id text not null,
      path text not null,
      content_type text not null,
      size integer not null,
      sha256 text not null,
      created_at integer not null,
      unique (operation_id, path)
    )`,
    'create table diff (at integer not null, report text not null)',
  ],
  [
    ...automationSchema,
    ...envSchema,
    ...secretsSchema,
    ...snapshotSchema,
    ...usageSchema,
    'alter table session add column configuration_id text',
    `alter table session add column mode text not null default 'scratch'`,
    `alter table session add column client_type text not null default 'api'`,
    'alter table session add column reasoning_effort text',
    'alter table session add column system_prompt text',
    `alter table session add column system_prompt_mode text not null default 'replace'`,
    'alter table session add column snapshot_id text',
    `alter table session add column env_files text not null default '[]'`,
  ],
  [...runSchema, ...policySchema, ...sliceSchema, ...deliverySchema],
  [
    ...generationSchema,
    ...startSchema,
    ...snapshotOrderSchema,
    'alter table session add column image text',
    `alter table session add column limits text not null default '{}'`,
    // Sessions of earlier releases are left as they are: nobody has told their owners that they would sleep.
    'alter table session add column idle_timeout_seconds integer',
    `alter table session add column replacement text not null default 'manual'`,
    `insert into sandboxes (generation, ready_at)
     select generation, created_at from session where provider <> 'none'`,
    `update deadlines set name = name || ':' || (select generation from session) where name = 'sandbox.create'`,
  ],
  ['alter table session add column claimed_for text'],
  [promiseTrigger],
  callTriggers,
]
