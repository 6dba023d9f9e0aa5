import { deadlineSchema } from '../deadlines.ts'
import { outboxSchema, promiseTrigger } from '../outbox.ts'
import { budgetsSchema } from './budgets.ts'
import { warmSchema } from './warm-rows.ts'

/** A rung that has landed is never edited. */
export const organisationLadder: readonly (readonly string[])[] = [
  [
    `create table creations (
      key text primary key,
      body_hash text not null,
      session_id text not null,
      created_at integer not null
    )`,
    'create index creations_by_age on creations (created_at)',
  ],
  ['alter table creations add column erased integer not null default 0'],
  ['create table run_claims (run_id text primary key, session_id text not null)'],
  [
    ...deadlineSchema,
    ...outboxSchema,
    // Project '' is the organisation itself.
    ...budgetsSchema,
    'create table limits (project text primary key, body text not null)',
    `create table reservations (
      session_id text not null,
      generation integer not null,
      provider text not null,
      project text not null,
      -- USD for one hour, as it was when the place was granted.
      price real not null,
      granted_at integer not null,
      -- Until when it is booked: first the end of its lifetime, then its real end. Null while an orphan runs.
      until integer,
      -- How often the provider may have been asked to create it.
      attempts integer not null,
      connected_at integer,
      -- Since when the provider does not list it.
      missing_since integer,
      -- Since when it is known to run without a reservation.
      orphan_since integer,
      ended_at integer,
      outcome text,
      reason text,
      primary key (session_id, generation)
    )`,
    'create index reservations_by_grant on reservations (granted_at)',
    'create index reservations_by_end on reservations (until)',
    'create index reservations_open on reservations (ended_at) where ended_at is null',
    `create table breakers (
      provider text primary key,
      failures integer not null,
      -- How often in a row it has opened.
      openings integer not null,
      open_until integer,
      -- The one sandbox that may try while it is half open, and until when it is waited for.
      trial text,
      trial_until integer,
      last_reason text
    )`,
    // Name own, or deployment: what this object has heard from the deployment's.
    `create table switches (
      name text primary key,
      version integer not null,
      is_on integer not null,
      reason text not null,
      changed_at integer not null,
      changed_by text not null
    )`,
    // Only in the deployment's object: who must be told of its switch.
    'create table members (organisation_id text primary key, told_version integer not null)',
  ],
  warmSchema,
  [promiseTrigger],
]
