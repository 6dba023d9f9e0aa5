import { beforeAll, describe } from 'vitest'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { insertKey } from '../../src/core/registry/keys.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import { parseConfig } from '../../src/config.ts'
import { badInputSuite } from '../e2e/bad-input.ts'
import { createGuardKit, type GuardKit, sendTo } from '../e2e/guard-kit.ts'
import { guardSuite } from '../e2e/guards.ts'
import { hosts, useStack } from '../support/stack.ts'

describe.each(hosts)('guards on %s', (host) => {
  const stack = useStack(host)
  let kit: GuardKit
  beforeAll(async () => {
    const { tokenKeys, sealKeys, operatorKey } = parseConfig(stack().env)
    const crypto = createWebCrypto(sealKeys)
    const stranger = await createOrganisation(stack().db, crypto, Date.now(), 'stranger')
    const key = { name: 'stranger', owner: 'stranger', scopes: ['admin' as const] }
    kit = await createGuardKit({
      send: sendTo(stack().url),
      adminKey: stack().adminKey,
      strangerKey: (await insertKey(stack().db, crypto, Date.now(), stranger, key)).secret,
      tokenKeys,
      operatorKey: operatorKey ?? '',
    })
  })
  guardSuite(host, () => kit)
  badInputSuite(host, () => kit)
})
