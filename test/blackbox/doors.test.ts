import { beforeAll, describe } from 'vitest'
import { createCrypto } from '../../src/adapters/web-crypto.ts'
import { createKey, createOrganisation } from '../../src/core/keys/key.ts'
import { parseConfig } from '../../src/http/config.ts'
import { badInputSuite } from '../e2e/bad-input.ts'
import { createDoorKit, type DoorKit, sendTo } from '../e2e/door-kit.ts'
import { doorSuite } from '../e2e/doors.ts'
import { hosts, useStack } from '../support/stack.ts'

describe.each(hosts)('doors on %s', (host) => {
  const stack = useStack(host)
  let kit: DoorKit
  beforeAll(async () => {
    const { tokenKeys, sealKeys, operatorKey } = parseConfig(stack().env)
    const crypto = createCrypto(sealKeys)
    const stranger = await createOrganisation(stack().db, crypto, Date.now(), 'stranger')
    const key = { name: 'stranger', owner: 'stranger', scopes: ['admin' as const] }
    kit = await createDoorKit({
      send: sendTo(stack().url),
      adminKey: stack().adminKey,
      strangerKey: (await createKey(stack().db, crypto, Date.now(), stranger, key)).secret,
      tokenKeys,
      operatorKey: operatorKey ?? '',
    })
  })
  doorSuite(host, () => kit)
  badInputSuite(host, () => kit)
})
