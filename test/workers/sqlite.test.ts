import { env } from 'cloudflare:workers'
import { runInDurableObject } from 'cloudflare:test'
import type { Env } from '../../durable-objects/env.ts'
import { durableSql } from '../../durable-objects/sqlite.ts'
import { sqlSuite } from '../suites/sql.ts'

const { ORGANISATION } = env as unknown as Env
let count = 0

// The class does not matter: only its storage is used.
sqlSuite('Durable Object', (work) =>
  runInDurableObject(ORGANISATION.getByName(`sql-suite-${count++}`), (_, state) =>
    work(durableSql(state.storage)),
  ),
)
