import { beforeAll } from 'vitest'
import { badInputSuite } from '../e2e/bad-input.ts'
import { createGuardKit, type GuardKit, type Send } from '../e2e/guard-kit.ts'
import { guardSuite } from '../e2e/guards.ts'
import { createTestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let kit: GuardKit

beforeAll(async () => {
  const { app, live, makeKey, makeOrganisation, tokenKeys } = createTestApp({ db: libsql.db })
  const send: Send = async (method, path, headers, body) => {
    const init = body === undefined ? {} : { body: body as string }
    const response = await app.request(path, { method, headers, ...init })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      text: await response.text(),
    }
  }
  kit = await createGuardKit({
    send,
    adminKey: (await makeKey(await makeOrganisation(), 'admin')).secret,
    strangerKey: (await makeKey(await makeOrganisation(), 'admin')).secret,
    tokenKeys,
    operatorKey: testOperatorKey,
    live: () => live(1000),
  })
})

guardSuite('the app in this process', () => kit)
badInputSuite('the app in this process', () => kit)
