// The sandbox's token: a JWT for one session, organisation and generation. The first key signs and all of them verify,
// so keys can be rotated without refusing a living sandbox. The session mints tokens, and the app verifies them for
// every request of a sandbox.

import { errors, jwtVerify, SignJWT } from 'jose'
import {
  SandboxClaims,
  tokenAudience,
  tokenIssuer,
  tokenLifetimeSeconds,
} from '../contract/token.ts'
import type { Clock, Tokens } from '../core/ports.ts'
import {
  firstSecretKey,
  type ImportedKey,
  importSecretKeyOnce,
  type SecretKey,
} from './secret-key.ts'

type TokenCheck =
  | { state: 'valid' | 'expired'; claims: SandboxClaims }
  /** Not a token of ours, whatever is wrong with it. */
  | { state: 'invalid' }

export interface TokenAuthority extends Tokens {
  /** Sessions get the usual token; only the route for programs that stand in for a sandbox asks for another. */
  mint(
    claims: Parameters<Tokens['mint']>[0],
    options?: { lifetimeSeconds?: number; source?: string },
  ): ReturnType<Tokens['mint']>
  verify(token: string): Promise<TokenCheck>
}

export function createTokens(keys: readonly SecretKey[], now: Clock): TokenAuthority {
  const keyOf = importSecretKeyOnce(keys, (secret) =>
    crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, [
      'sign',
      'verify',
    ]),
  )
  const verified = new VerifiedTokens()
  return {
    async mint(
      { sessionId, organisationId, generation },
      { lifetimeSeconds = tokenLifetimeSeconds, source = 'sandbox' } = {},
    ) {
      const { id } = firstSecretKey(keys)
      const issuedAt = Math.floor(now() / 1000)
      const expiresAt = issuedAt + lifetimeSeconds
      const token = await new SignJWT({ org: organisationId, gen: generation, source })
        .setProtectedHeader({ alg: 'HS256', kid: id, typ: 'JWT' })
        .setIssuer(tokenIssuer)
        .setAudience(tokenAudience)
        .setSubject(sessionId)
        .setIssuedAt(issuedAt)
        .setExpirationTime(expiresAt)
        .sign((await keyOf(id)) as ImportedKey)
      return { token, expiresAt: expiresAt * 1000 }
    },

    async verify(token) {
      const known = verified.get(token, now())
      if (known) return { state: 'valid', claims: known }
      const check = await verifySignature(token)
      if (check.state === 'valid') verified.set(token, check.claims, now())
      return check
    },
  }

  async function verifySignature(token: string): Promise<TokenCheck> {
    try {
      const { payload } = await jwtVerify(token, (header) => verificationKey(header.kid), {
        algorithms: ['HS256'],
        issuer: tokenIssuer,
        audience: tokenAudience,
        requiredClaims: ['iat', 'exp', 'sub'],
        currentDate: new Date(now()),
      })
      return checkClaims('valid', payload, now())
    } catch (error) {
      // Raised only after signature, issuer and audience were found right.
      if (error instanceof errors.JWTExpired) return checkClaims('expired', error.payload, now())
      return { state: 'invalid' }
    }
  }

  async function verificationKey(kid: string | undefined): Promise<ImportedKey> {
    const key = kid === undefined ? null : await keyOf(kid)
    if (!key) throw new errors.JWKSNoMatchingKey()
    return key
  }
}

/**
 * A sandbox sends the same token with every call, so its signature is checked once in a while, not every time. Short
 * enough that a withdrawn signing key counts soon; what changes at once, the generation, is checked by the session.
 */
class VerifiedTokens {
  readonly #entries = new Map<string, { claims: SandboxClaims; until: number }>()

  get(token: string, now: number): SandboxClaims | null {
    const entry = this.#entries.get(token)
    return entry && now < entry.until ? entry.claims : null
  }

  set(token: string, claims: SandboxClaims, now: number): void {
    if (this.#entries.size >= maxVerified) this.#entries.clear()
    const expiresAt = claims.exp * 1000
    this.#entries.set(token, { claims, until: Math.min(now + verifiedForMs, expiresAt) })
  }
}
const verifiedForMs = 30_000
const maxVerified = 10_000
/** So much the clocks of two machines that mint and verify may differ. */
const maxAheadMs = 60_000

function checkClaims(
  state: 'valid' | 'expired',
  payload: { iat?: number; exp?: number },
  now: number,
): TokenCheck {
  const claims = SandboxClaims.safeParse(payload)
  const issuedAt = payload.iat ?? 0
  const lifetime = (payload.exp ?? Infinity) - issuedAt
  // A token with a longer life, or from the future, was not made by `mint`, even if the key is right.
  if (!claims.success || lifetime > tokenLifetimeSeconds) return { state: 'invalid' }
  if (issuedAt * 1000 > now + maxAheadMs) return { state: 'invalid' }
  return { state, claims: claims.data }
}
