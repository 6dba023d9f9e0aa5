import type { Generation } from './generations.ts'

/** The provider's clock runs for this long, and is set anew while somebody is there: what is forgotten ends by itself. */
const leaseMs = 60 * 60_000
/** Before the end of a lease or a grant, so that there is time to try again. */
const leadMs = 10 * 60_000

export const leaseEnd = (now: number, endsAt: number): number => Math.min(endsAt, now + leaseMs)

/** When the lease must be extended, or the end of the grant be faced. */
export function nextLeaseExtension(
  own: Pick<Generation, 'endsAt' | 'leaseUntil'>,
  now: number,
): number {
  const until = own.leaseUntil ?? now
  return Math.max(now, until - Math.min(leadMs, (until - now) / 2))
}

/** Nothing can be extended beyond what the organisation has granted. */
export const isLast = (own: Pick<Generation, 'endsAt' | 'leaseUntil'>): boolean =>
  (own.leaseUntil ?? 0) >= (own.endsAt ?? 0)
