import { beforeAll, describe } from 'vitest'
import { createCrypto } from '../../src/adapters/web-crypto.ts'
import { createKey, createOrganisation } from '../../src/core/keys/key.ts'
import { parseConfig } from '../../src/http/config.ts'
import { badInputSuite } from '../e2e/bad-input.ts'
import { createDoorKit, type DoorKit, sendTo } from '../e2e/door-kit.ts'
import { doorSuite } from '../e2e/doors.ts'
import { hosts, useStack } from '../support/stack.ts'

describe.each(hosts)('%s', (host) => {
  const stack = useStack(host)
  let kit: DoorKit

  beforeAll(async () => {
    const { url, adminKey, db, env } = stack()
    const crypto = createCrypto([])
    const organisationId = await createOrganisation(db, crypto, Date.now(), 'stranger')
    const input = { name: 'stranger', owner: 'stranger', scopes: ['admin' as const] }
    const stranger = await createKey(db, crypto, Date.now(), organisationId, input)
    kit = await createDoorKit({
      send: sendTo(url),
      adminKey,
      strangerKey: stranger.secret,
      tokenKeys: parseConfig(env).tokenKeys,
    })
  })

  doorSuite(host, () => kit)
  badInputSuite(host, () => kit)
})
