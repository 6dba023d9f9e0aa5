import { errors, jwtVerify, SignJWT } from 'jose'
import {
  SandboxClaims,
  tokenAudience,
  tokenIssuer,
  tokenLifetimeSeconds,
} from '../contract/token.ts'
import type { Clock, Tokens } from '../core/ports.ts'
import { firstKey, type ImportedKey, importOnce, type SecretKey } from './secret-key.ts'

export type TokenCheck =
  | { state: 'valid' | 'expired'; claims: SandboxClaims }
  /** Not a token of ours, whatever is wrong with it. */
  | { state: 'invalid' }

export interface TokenAuthority extends Tokens {
  verify(token: string): Promise<TokenCheck>
}

/** The first key signs; all of them verify, so that keys can be rotated without refusing a living sandbox. */
export function createTokens(keys: readonly SecretKey[], now: Clock): TokenAuthority {
  const keyOf = importOnce(keys, (secret) =>
    crypto.subtle.importKey('raw', secret, { name: 'HMAC', hash: 'SHA-256' }, false, [
      'sign',
      'verify',
    ]),
  )
  return {
    async mint({ sessionId, organisationId, generation }) {
      const { id } = firstKey(keys)
      const issuedAt = Math.floor(now() / 1000)
      const expiresAt = issuedAt + tokenLifetimeSeconds
      const token = await new SignJWT({ org: organisationId, gen: generation, source: 'sandbox' })
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
      try {
        const { payload } = await jwtVerify(token, (header) => verificationKey(header.kid), {
          algorithms: ['HS256'],
          issuer: tokenIssuer,
          audience: tokenAudience,
          requiredClaims: ['iat', 'exp', 'sub'],
          currentDate: new Date(now()),
        })
        return checkClaims('valid', payload)
      } catch (error) {
        // Raised only after signature, issuer and audience were found right.
        if (error instanceof errors.JWTExpired) return checkClaims('expired', error.payload)
        return { state: 'invalid' }
      }
    },
  }

  async function verificationKey(kid: string | undefined): Promise<ImportedKey> {
    const key = kid === undefined ? null : await keyOf(kid)
    if (!key) throw new errors.JWKSNoMatchingKey()
    return key
  }
}

function checkClaims(
  state: 'valid' | 'expired',
  payload: { iat?: number; exp?: number },
): TokenCheck {
  const claims = SandboxClaims.safeParse(payload)
  const lifetime = (payload.exp ?? Infinity) - (payload.iat ?? 0)
  // A token with a longer life was not made by `mint`, even if the key is right.
  if (!claims.success || lifetime > tokenLifetimeSeconds) return { state: 'invalid' }
  return { state, claims: claims.data }
}
