import { expect, test } from 'vitest'
import { holds, verifyBundle } from '../../local/verify/verify.ts'
import { createAttestationKeys } from '../../src/adapters/attestation-keys.ts'
import { provenRun, signedText } from '../support/export-kit.ts'
import { secretKey } from '../support/keys.ts'

test('[EXP14] workerd signs and checks by Ed25519 as others do', async () => {
  const key = secretKey('k1')
  const keys = await createAttestationKeys([key]).publicKeys()
  const text = await signedText(provenRun(), key)
  expect(holds(await verifyBundle(text, keys))).toBe(true)
  expect(holds(await verifyBundle(text.replace('value = 2', 'value = 3'), keys))).toBe(false)
  const others = await createAttestationKeys([secretKey('k1')]).publicKeys()
  expect(await verifyBundle(text, others)).toMatchObject({ signature: 'unknown-key' })
})
