import { env } from 'cloudflare:workers'
import { runInDurableObject } from 'cloudflare:test'
import type { Env } from '../../durable-objects/bindings.ts'
import { durableSqlite } from '../../durable-objects/sqlite.ts'
import type { Sql } from '../../src/core/ports.ts'
import { sqlSuite } from '../suites/sql.ts'
import { writesSuite } from '../suites/writes.ts'

const { ORGANISATION } = env as unknown as Env
let count = 0

// The class does not matter: only its storage is used.
const withSql = (work: (sql: Sql) => void | Promise<void>) =>
  runInDurableObject(ORGANISATION.getByName(`sql-suite-${count++}`), (_, state) =>
    work(durableSqlite(state.storage)),
  )

sqlSuite('Durable Object', withSql)
writesSuite('Durable Object', withSql)
