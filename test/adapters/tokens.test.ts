import { createHmac } from 'node:crypto'
import { type JWTPayload, SignJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { createTokens } from '../../src/adapters/tokens.ts'
import { tokenAudience, tokenIssuer } from '../../src/contract/token.ts'
import { secretKey } from '../support/keys.ts'

const [first, second] = [secretKey('k1'), secretKey('k2')]
const now = 1_800_000_000_000
const seconds = now / 1000
const subject = {
  sessionId: `ses_${'0'.repeat(30)}`,
  organisationId: `org_${'0'.repeat(20)}`,
  generation: 3,
}
const at = (time: number, keys = [first]) => createTokens(keys, () => time)
const good = {
  iss: tokenIssuer,
  aud: tokenAudience,
  sub: subject.sessionId,
  org: subject.organisationId,
  gen: 3,
  source: 'sandbox',
  iat: seconds,
  exp: seconds + 60,
}
const sign = (payload: JWTPayload, header: { alg: string; kid?: string }, secret = first.secret) =>
  new SignJWT(payload).setProtectedHeader(header).sign(secret)

test('[AUTH4] a minted token is valid for its session, organisation and generation for one hour', async () => {
  const { token, expiresAt } = await at(now).mint(subject)
  expect(expiresAt).toBe(now + 3_600_000)
  const claims = {
    sub: subject.sessionId,
    org: subject.organisationId,
    gen: 3,
    source: 'sandbox',
    exp: expiresAt / 1000,
  }
  expect(await at(expiresAt - 1000).verify(token)).toEqual({ state: 'valid', claims })
  expect(await at(expiresAt).verify(token)).toEqual({ state: 'expired', claims })
})

test('[AUTH5] keys rotate: the first signs, every one verifies, a dropped one does not', async () => {
  const old = (await at(now, [first]).mint(subject)).token
  const rotated = at(now, [second, first])
  const fresh = (await rotated.mint(subject)).token
  expect((await rotated.verify(old)).state).toBe('valid')
  expect((await rotated.verify(fresh)).state).toBe('valid')
  expect((await at(now, [second]).verify(old)).state).toBe('invalid')
  expect((await at(now, [first]).verify(fresh)).state).toBe('invalid')
})

describe('[AUTH] what is not a token of ours', () => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const cases: Record<string, () => string | Promise<string>> = {
    'no text': () => '',
    'no JWT': () => 'a.b.c',
    'algorithm none': () => `${part({ alg: 'none', kid: 'k1' })}.${part(good)}.`,
    'another algorithm with the right key': () => {
      const body = `${part({ alg: 'HS512', kid: 'k1' })}.${part(good)}`
      return `${body}.${createHmac('sha512', first.secret).update(body).digest('base64url')}`
    },
    'no key id': () => sign(good, { alg: 'HS256' }),
    'an unknown key id': () => sign(good, { alg: 'HS256', kid: 'k9' }),
    'another key': () => sign(good, { alg: 'HS256', kid: 'k1' }, second.secret),
    'another audience': () => sign({ ...good, aud: 'other' }, { alg: 'HS256', kid: 'k1' }),
    'another issuer': () => sign({ ...good, iss: 'other' }, { alg: 'HS256', kid: 'k1' }),
    'no expiry': () => {
      const { exp: _, ...endless } = good
      return sign(endless, { alg: 'HS256', kid: 'k1' })
    },
    'more than an hour of life': () =>
      sign({ ...good, exp: seconds + 3601 }, { alg: 'HS256', kid: 'k1' }),
    'issued more than a minute from now': () =>
      sign({ ...good, iat: seconds + 61, exp: seconds + 120 }, { alg: 'HS256', kid: 'k1' }),
    'no generation': () => {
      const { gen: _, ...without } = good
      return sign(without, { alg: 'HS256', kid: 'k1' })
    },
    'expired and for another audience': () =>
      sign({ ...good, aud: 'other', exp: seconds - 1 }, { alg: 'HS256', kid: 'k1' }),
  }
  for (const [name, make] of Object.entries(cases)) {
    test(`[AUTH4] [AUTH12] ${name}`, async () => {
      expect(await at(now).verify(await make())).toEqual({ state: 'invalid' })
    })
  }

  test('[AUTH12] clocks may differ by a minute', async () => {
    const ahead = { ...good, iat: seconds + 60, exp: seconds + 120 }
    const token = await sign(ahead, { alg: 'HS256', kid: 'k1' })
    expect((await at(now).verify(token)).state).toBe('valid')
  })

  test('the pattern for these cases is itself valid', async () => {
    const token = await sign(good, { alg: 'HS256', kid: 'k1' })
    expect((await at(now).verify(token)).state).toBe('valid')
  })

  test('every bit of the payload and the signature counts', async () => {
    const { token } = await at(now).mint(subject)
    const start = token.indexOf('.') + 1
    for (let i = start; i < token.length - 1; i += 7) {
      const changed = token.slice(0, i) + (token[i] === 'A' ? 'B' : 'A') + token.slice(i + 1)
      expect((await at(now).verify(changed)).state).toBe('invalid')
    }
  })
})
