import { expect, test } from 'vitest'
import { climbLadder } from '../../src/core/actor/ladder.ts'
import type { Sql } from '../../src/core/ports.ts'
import { sessionLadder } from '../../src/core/session/rungs/ladder.ts'
import { Writes } from '../../src/core/actor/writes.ts'

/** Each may be run twice. */
const statements: [string, ...string[]][] = [
  [`update session set status = 'open'`, 'session'],
  [`UPDATE Session SET status = 'open'`, 'session'],
  ['insert into turns select * from turns where false', 'turns'],
  [`update or ignore turns set reason = ''`, 'turns'],
  [`update "turns" set reason = ''`, 'turns'],
  [`update turns set reason = '' where n = 1 returning n`, 'turns'],
  ['replace into deadlines (name, at) values (1, 1)', 'deadlines'],
  [
    `insert into deadlines (name, at) values ('a', 1) on conflict (name) do update set at = 2`,
    'deadlines',
  ],
  [
    `with x as (select 1) insert or ignore into deadlines (name, at) select 'a', 1 from x`,
    'deadlines',
  ],
  ['delete from deadlines', 'deadlines'],
  [`delete from main.deadlines where name = ''`, 'deadlines'],
  [`update\n  runs set status = ''`, 'runs'],
  ['/* update turns */ delete from commands', 'commands'],
  // Its trigger promises the sending.
  [`insert into outbox (kind, payload, created_at) values ('', '', 1)`, 'deadlines', 'outbox'],
  ['delete from outbox', 'outbox'],
  // Named in the outbox by triggers, when it begins and when it ends.
  [
    `insert or ignore into calls (tool, tool_call_id, operation_id, args, args_hash, state, generation, attempts, started_at)
     values ('t', 'c', 'o', '', '', 'pending', 1, 1, 1)`,
    'calls',
    'deadlines',
    'outbox',
  ],
  [`update calls set state = 'settled', settled_at = 1`, 'calls', 'deadlines', 'outbox'],
  ['update calls set conflicts = 1', 'calls'],
  [`insert or replace into events values (1, 1, '', 'update turns set x')`, 'events'],
  ['delete from prompt_keys', 'prompt_keys'],
  ['select * from session'],
]

/** Every host's SQLite says of each statement what it writes. */
export function writesSuite(
  name: string,
  withSql: (work: (sql: Sql) => void | Promise<void>) => Promise<void>,
): void {
  test(`[REL8] ${name}: SQLite says which tables a statement writes`, () =>
    withSql((plain) => {
      let written: string[] = []
      const writes = new Writes(plain, (tables) => (written = [...tables].toSorted()))
      writes.climbed(sessionLadder, climbLadder(plain, sessionLadder))
      for (const [statement, ...tables] of statements)
        for (const way of ['run', 'all'] as const) {
          written = []
          writes.sql[way](statement)
          expect(written, statement).toEqual(tables)
        }
    }))
}
