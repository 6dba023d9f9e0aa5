import type { Reservation } from './api.ts'

export type Refusal = Extract<Reservation, { granted: false }>

/** `retryAt` null: only a person can change it. */
export function refuse(why: string, retryAt: number | null): Refusal {
  return { granted: false, reason: `Cannot start a sandbox: ${why}`, retryAt }
}
