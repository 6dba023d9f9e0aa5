import type { Firewall, Limits, WorstCase } from '../../../contract/limits.ts'
import { limitPrices } from './limits.ts'
import { maxAttempts, startSeconds } from './places.ts'

/**
 * The bound that follows from the limits alone, whatever sessions, sandboxes and providers do: a sandbox that fails to
 * boot has held its place and its time like any other.
 */
export function worstCase(firewall: Firewall, limits: Limits, project: string | null): WorstCase {
  const { sandboxesPerHour, concurrentSandboxes, hoursPerDay, lifetimeSeconds } = limits
  // Any 24 hours are 24 windows of 60 minutes.
  const sandboxesPerDay = 24 * sandboxesPerHour
  const sandboxHoursPerDay = Math.min(
    hoursPerDay,
    24 * concurrentSandboxes,
    // Those of the day before go on into this one.
    ((sandboxesPerDay + concurrentSandboxes) * (lifetimeSeconds + startSeconds)) / 3600,
  )
  const byProvider = Object.entries(limitPrices(firewall)).map(
    ([name, price]) => [name, Math.min(limits.moneyPerDay, sandboxHoursPerDay * price)] as const,
  )
  return {
    project,
    sandboxesPerHour,
    sandboxesPerDay,
    concurrentSandboxes,
    createRequestsPerSandbox: maxAttempts,
    sandboxHoursPerDay,
    moneyPerDay: Math.max(0, ...byProvider.map(([, money]) => money)),
    moneyPerDayByProvider: Object.fromEntries(byProvider),
    notes: notes(firewall),
  }
}

function notes({ graceSeconds, reconcileSeconds, breakerFailures }: Firewall): string[] {
  return [
    'A place, its hours and its money are reserved for the whole lifetime before the provider is asked; what is not used comes back when the sandbox ends. Sandboxes that fail to boot are included.',
    `After ${breakerFailures} sandboxes in a row that never connect, a provider is left alone for a while: a provider that always fails stays far below this bound.`,
    `What runs at a provider without a reservation is looked for every ${reconcileSeconds} s, counted from then on, and stopped after ${graceSeconds} s.`,
  ]
}
