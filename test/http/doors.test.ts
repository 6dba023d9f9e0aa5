import { beforeAll } from 'vitest'
import { badInputSuite } from '../e2e/bad-input.ts'
import { createDoorKit, type DoorKit, type Send } from '../e2e/door-kit.ts'
import { doorSuite } from '../e2e/doors.ts'
import { createTestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let kit: DoorKit

beforeAll(async () => {
  const { app, makeKey, makeOrganisation, tokenKeys } = createTestApp({ db: libsql.db })
  const send: Send = async (method, path, headers, body) => {
    const init = body === undefined ? {} : { body: body as string }
    const response = await app.request(path, { method, headers, ...init })
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      text: await response.text(),
    }
  }
  kit = await createDoorKit({
    send,
    adminKey: (await makeKey(await makeOrganisation(), 'admin')).secret,
    strangerKey: (await makeKey(await makeOrganisation(), 'admin')).secret,
    tokenKeys,
    operatorKey: testOperatorKey,
  })
})

doorSuite('the app in this process', () => kit)
badInputSuite('the app in this process', () => kit)
