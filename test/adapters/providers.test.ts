import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { createDirectory, type DirectoryOptions } from '../../src/adapters/sandboxes/directory.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import type { E2bCredentials } from '../../src/contract/provider.ts'
import { errorTable } from '../../src/contract/error.ts'
import type { Db } from '../../src/core/ports.ts'
import { secretKey } from '../support/keys.ts'

const crypto = createWebCrypto([secretKey('s')])
const deploymentKey = 'e2b_of_the_deployment'
const ownKey = 'e2b_of_the_organisation'

/** E2B, as far as a look at it goes: says whose key it was asked with, and quotes it when it is told to. */
const seen: string[] = []
let quotes = false
const vendor: Server = createServer((request, response) => {
  const key = String(request.headers['x-api-key'])
  seen.push(key)
  response.statusCode = quotes ? 500 : 200
  response.setHeader('content-type', 'application/json')
  const text = quotes ? `Key ${Buffer.from(key).toString('base64')} (${key}) is odd` : '[]'
  response.end(text)
})
await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve))
const apiUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
afterAll(() => void vendor.close())

const account = (apiKey: string): E2bCredentials => ({ apiKey, apiUrl, template: 'gantry' })

let now = 0
let stored: string | null = null
let isAway = false
let reads = 0
const db: Db = {
  all: async <T extends object>() => {
    reads += 1
    if (isAway) throw new Error('away')
    return (stored === null ? [] : [{ sealed: stored }]) as T[]
  },
  batch: async () => {},
}
const directory = (more: Partial<DirectoryOptions> = {}) =>
  createDirectory({
    ...{ local: null, modal: null, e2b: account(deploymentKey), label: 'test' },
    ...{ db: () => db, crypto, now: () => now },
    ...more,
  })

beforeEach(() => {
  now = 1_000_000
  stored = null
  isAway = false
  reads = 0
  quotes = false
  seen.length = 0
})

const usedKey = async (providers: ReturnType<typeof directory>, organisation = 'org_1') => {
  seen.length = 0
  await (await providers.find('e2b', organisation))?.list(organisation)
  return seen.at(-1)
}

describe('whose credentials count', () => {
  test('[PROV11] an organisation’s own win over the deployment’s', async () => {
    const providers = directory()
    expect(await usedKey(providers)).toBe(deploymentKey)
    stored = await crypto.seal(JSON.stringify(account(ownKey)))
    providers.forget('e2b', 'org_1')
    expect(await usedKey(providers)).toBe(ownKey)
    expect(providers.ofDeployment).toEqual(['e2b'])
  })

  test('[PROV11] without any there is no such provider, and none is never one', async () => {
    const providers = directory({ e2b: null })
    expect(await providers.find('e2b', 'org_1')).toBeNull()
    expect(await providers.find('none', 'org_1')).toBeNull()
    expect(await providers.find('local', 'org_1')).toBeNull()
    expect(providers.ofDeployment).toEqual([])
    expect(await providers.check('e2b', 'org_1')).toEqual({ source: null, checks: [] })
  })

  test('[PROV12] they are remembered for thirty seconds and no longer', async () => {
    const providers = directory()
    await usedKey(providers)
    stored = await crypto.seal(JSON.stringify(account(ownKey)))
    now += 29_999
    expect(await usedKey(providers)).toBe(deploymentKey)
    now += 1
    expect(await usedKey(providers)).toBe(ownKey)
    expect(reads).toBe(2)
  })

  test('[PROV12] one provider stays the same for as long as its credentials do', async () => {
    const providers = directory()
    stored = await crypto.seal(JSON.stringify(account(ownKey)))
    const [first, second] = await Promise.all([
      providers.find('e2b', 'org_1'),
      providers.find('e2b', 'org_1'),
    ])
    expect(second).toBe(first)
    now += 60_000
    expect(await providers.find('e2b', 'org_1')).toBe(first)
    expect(await providers.find('e2b', 'org_2')).not.toBe(first)
  })

  test('[PROV13] while libSQL is away the deployment’s do not stand in', async () => {
    const providers = directory()
    stored = await crypto.seal(JSON.stringify(account(ownKey)))
    expect(await usedKey(providers)).toBe(ownKey)
    isAway = true
    expect(await usedKey(providers)).toBe(ownKey)
    now += 30_000
    const refusal = await providers.find('e2b', 'org_1').catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'sandbox_unavailable' })
    expect(errorTable.sandbox_unavailable.retryable).toBe(true)
    await expect(providers.find('e2b', 'org_never_seen')).rejects.toThrow('Cannot use provider')
    isAway = false
    expect(await usedKey(providers)).toBe(ownKey)
  })

  test('[PROV13] the local provider does not need libSQL', async () => {
    isAway = true
    const local = { hostUrl: apiUrl, secret: 'host secret', root: '/r' }
    expect(await directory({ local }).find('local', 'org_1')).not.toBeNull()
  })

  test('[PROV13] what cannot be opened is neither used nor replaced', async () => {
    const other = createWebCrypto([secretKey('another')])
    stored = await other.seal(JSON.stringify(account(ownKey)))
    await expect(directory().find('e2b', 'org_1')).rejects.toThrow('Set them again')
    expect(seen).toEqual([])
  })
})

test('[PROV14] what a vendor quotes of the key is not in the answer', async () => {
  quotes = true
  stored = await crypto.seal(JSON.stringify(account(ownKey)))
  const report = await directory().check('e2b', 'org_1')
  expect(report.source).toBe('organisation')
  expect(report.checks[0]?.ok).toBe(false)
  const text = JSON.stringify(report)
  expect(text).not.toContain(ownKey)
  expect(text).not.toContain(Buffer.from(ownKey).toString('base64'))
  expect(text).toContain('[secret:E2B_API_KEY]')
})
