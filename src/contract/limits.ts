import { z } from 'zod'
import { ProviderName } from './sandbox.ts'

const count = (max: number) => z.number().int().min(0).max(max)

/** What bounds the sandboxes of an organisation, and of each of its projects that has a row of its own. */
export const Limits = z.object({
  sandboxesPerHour: count(100_000).describe('Sandboxes begun within any 60 minutes'),
  concurrentSandboxes: count(10_000).describe('Sandboxes at one time'),
  hoursPerDay: z.number().min(0).max(240_000).describe('Hours of all sandboxes in one UTC day'),
  moneyPerDay: z.number().min(0).max(1_000_000).describe('USD for all sandboxes in one UTC day'),
  // Not above a day: what is booked then touches two UTC days at most, and every vendor ends a sandbox by then.
  lifetimeSeconds: z
    .number()
    .int()
    .min(60)
    .max(24 * 60 * 60)
    .describe('One sandbox lives no longer'),
})
export type Limits = z.infer<typeof Limits>
export type LimitName = keyof Limits

/** Replaces what was set before: a limit that is left out goes back to the deployment's, in a project to none. */
export const LimitsChange = z.strictObject(Limits.partial().shape)
export type LimitsChange = z.infer<typeof LimitsChange>

/** Room for fifty local sessions at once and their replacements; a vendor's bill stays under 100 USD a day. */
export const defaultLimits: Limits = {
  sandboxesPerHour: 1000,
  concurrentSandboxes: 100,
  hoursPerDay: 1000,
  moneyPerDay: 100,
  lifetimeSeconds: 8 * 60 * 60,
}

const price = z.number().min(0).max(1000)
export const Prices = z.record(ProviderName, price)
export type Prices = z.infer<typeof Prices>

/**
 * USD for one hour of one sandbox with two virtual cores and 4 GiB, at list price. E2B: 0.0504 a core and 0.0162 a GiB;
 * Modal: 0.142 for one physical core, which is two virtual ones, and 0.0242 a GiB. Who boots larger ones sets a price.
 */
export const listPrices: Prices = { local: 0, none: 0, e2b: 0.17, modal: 0.24 }
export const listPricesAsOf = '2026-06-27'

const seconds = (unset: number) => z.number().int().min(1).max(86_400).default(unset)

/** What a deployment says about all of its organisations: `GANTRY_LIMITS`, as JSON. A limit set here is the most that one can have. */
export const Firewall = z.strictObject({
  ...Limits.partial().shape,
  prices: z
    .partialRecord(ProviderName, price)
    .default({})
    .describe('USD for one hour of one sandbox'),
  breakerFailures: count(1000).min(1).default(5).describe('So many in a row open the breaker'),
  breakerSeconds: seconds(30).describe('How long it is open the first time; then twice as long'),
  breakerMaxSeconds: seconds(900),
  reconcileSeconds: seconds(60).describe('How often the provider’s inventory is compared'),
  modelCallsPerMinute: count(100_000)
    .min(1)
    .default(600)
    .describe('Model calls of one session within any 60 seconds'),
  concurrentModelCalls: count(1000)
    .min(1)
    .default(16)
    .describe('Model calls of one session at a time'),
  graceSeconds: seconds(120).describe('How long a sandbox without a reservation is left alone'),
  uploadMegabytesPerSession: count(1_000_000)
    .default(1024)
    .describe('MiB of uploads and artifacts that one session holds'),
  uploadMegabytes: count(100_000_000)
    .default(20_480)
    .describe('MiB of uploads and artifacts that all sessions of an organisation hold'),
})
export type Firewall = z.infer<typeof Firewall>

export const Usage = z.object({
  sandboxesLastHour: z.number().int(),
  concurrentSandboxes: z.number().int(),
  hoursToday: z.number().describe('Used, and reserved until the end of this UTC day'),
  moneyToday: z.number().describe('USD, likewise'),
})
export type Usage = z.infer<typeof Usage>

export const Breaker = z.object({
  provider: ProviderName,
  state: z.enum(['closed', 'open', 'half-open']),
  failures: z.number().int().describe('Sandboxes in a row that never connected'),
  openUntil: z.number().nullable().describe('Then one sandbox may try'),
  lastReason: z.string().nullable(),
})
export type Breaker = z.infer<typeof Breaker>

export const LimitsView = z.object({
  project: z.string().nullable(),
  limits: Limits.describe(
    'What holds: in a project the tighter one of its own and the organisation’s',
  ),
  set: Limits.partial().describe('What was set here'),
  defaults: Limits.describe('What the deployment says; what it has set itself cannot be passed'),
  usage: Usage,
  breakers: z.array(Breaker),
  prices: Prices.describe('USD for one hour of one sandbox'),
  pricesAsOf: z.string(),
  killed: z.boolean().describe('Whether a kill switch is on'),
})
export type LimitsView = z.infer<typeof LimitsView>

export const WorstCase = z.object({
  project: z.string().nullable(),
  sandboxesPerHour: z.number().int(),
  sandboxesPerDay: z.number().int(),
  concurrentSandboxes: z.number().int(),
  createRequestsPerSandbox: z.number().int().describe('The provider is asked so often at most'),
  sandboxHoursPerDay: z.number(),
  moneyPerDay: z.number().describe('USD, whatever the providers'),
  moneyPerDayByProvider: z
    .record(z.string(), z.number())
    .describe('USD, if all sandboxes were of this provider'),
  notes: z.array(z.string()),
})
export type WorstCase = z.infer<typeof WorstCase>

export const SandboxActionKind = z.enum([
  'orphan.noted',
  'orphan.stopped',
  'orphan.gone',
  'sandbox.vanished',
  'sandbox.expired',
  'sandbox.killed',
  'breaker.opened',
  'breaker.closed',
  'kill-switch.on',
  'kill-switch.off',
  'deployment-switch.on',
  'deployment-switch.off',
  'limits.changed',
  'budget.corrected',
  'budget.implausible',
])
export type SandboxActionKind = z.infer<typeof SandboxActionKind>

/** What the firewall did by itself, or was told. */
export const SandboxAction = z.object({
  seq: z.number().int(),
  action: SandboxActionKind,
  sessionId: z.string().nullable(),
  generation: z.number().int().nullable(),
  provider: ProviderName.nullable(),
  reason: z.string(),
  actor: z.string().describe('A key, or the part of Gantry that did it'),
  createdAt: z.number(),
})
export type SandboxAction = z.infer<typeof SandboxAction>
