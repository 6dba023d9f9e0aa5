import { expect, test } from 'vitest'
import { createWebCrypto, createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { SessionId } from '../../src/contract/ids.ts'
import { cryptoSuite } from '../suites/crypto.ts'
import { secretKey } from '../support/keys.ts'

const [first, second] = [secretKey('k1'), secretKey('k2')]
cryptoSuite('Web Crypto', () => createWebCrypto([first]))

test('after a rotation old seals open, and new ones are made with the new key', async () => {
  const old = await createWebCrypto([first]).seal('text')
  const rotated = createWebCrypto([second, first])
  expect(await rotated.unseal(old)).toBe('text')
  expect(rotated.isCurrent(old)).toBe(false)
  expect(await rotated.seal('text')).toMatch(/^v1\.k2\./)
  await expect(createWebCrypto([second]).unseal(old)).rejects.toThrow('no seal key "k1"')
  await expect(rotated.unseal(old.replace('k1', 'k2'))).rejects.toThrow()
})

test('a session id is known to the deployment that made it, and to no other', async () => {
  const ids = createCryptoSessionIds(first.secret)
  const id = await ids.mint()
  expect(SessionId.parse(id)).toBe(id)
  expect(await ids.check(id)).toBe(true)
  expect(await createCryptoSessionIds(second.secret).check(id)).toBe(false)
})

test('a session id with any character changed is refused', async () => {
  const ids = createCryptoSessionIds(first.secret)
  const id = await ids.mint()
  for (let at = 0; at < id.length; at++) {
    const changed = id.slice(0, at) + (id[at] === '0' ? '1' : '0') + id.slice(at + 1)
    expect(await ids.check(changed)).toBe(false)
  }
  for (const other of ['', 'ses_', `${id}0`, id.toUpperCase(), ` ${id}`, `${id}\n`]) {
    expect(await ids.check(other)).toBe(false)
  }
})
