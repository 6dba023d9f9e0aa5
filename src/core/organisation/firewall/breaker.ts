import type { Breaker, Firewall } from '../../../contract/limits.ts'
import type { ProviderName } from '../../../contract/sandbox.ts'
import type { Sql } from '../../ports.ts'
import { addAction } from '../record/actions.ts'
import { type Refusal, organisationApiRefusal, type SandboxClaim } from '../record/api.ts'

/**
 * The breaker of each provider: after several sandboxes in a row that never connected, it refuses places of this
 * provider for a time that doubles with each opening. Then it is half open: one sandbox at a time may try, and the first
 * that connects closes it. The rows are in `breakers`; every function runs inside a commit of its caller: places.ts asks
 * and notes the trial, endings.ts notes how sandboxes came out.
 */

/** The trial may have been forgotten by its session: then another one may try. */
const trialMs = 5 * 60_000
const trialLookMs = 15_000

interface BreakerRow {
  provider: ProviderName
  failures: number
  openings: number
  openUntil: number | null
  trial: string | null
  trialUntil: number | null
  lastReason: string | null
}
const columns = `provider, failures, openings, open_until as openUntil, trial, trial_until as trialUntil,
  last_reason as lastReason`

type Sandbox = Pick<SandboxClaim, 'sessionId' | 'generation' | 'provider'>

/** Closed: null. Open: nobody. Half open: one at a time may try. */
export function breakerRefusal(sql: Sql, now: number, provider: ProviderName): Refusal | null {
  const row = find(sql, provider)
  if (!row || row.openUntil === null) return null
  const why = `the last ${row.failures} sandboxes of provider "${provider}" never connected`
  const hint = `Check it with POST /v1/providers/${provider}/check`
  if (row.openUntil > now) {
    return organisationApiRefusal(`${why}, so it is left alone for a while. ${hint}`, row.openUntil)
  }
  if (row.trial === null || (row.trialUntil ?? 0) <= now) return null
  return organisationApiRefusal(
    `${why}, and one sandbox is trying it now. ${hint}`,
    now + trialLookMs,
  )
}

/** A place was given: if the breaker is half open, this is its trial. */
export function noteBreakerTrial(sql: Sql, now: number, sandbox: Sandbox): void {
  sql.run(
    'update breakers set trial = ?, trial_until = ? where provider = ? and open_until is not null',
    nameOf(sandbox),
    now + trialMs,
    sandbox.provider,
  )
}

/** A connection proves that the provider works; a creation does not. */
export function noteBreakerSuccess(sql: Sql, now: number, { provider }: Sandbox): void {
  const row = find(sql, provider)
  if (!row) return
  sql.run('delete from breakers where provider = ?', provider)
  if (row.openUntil === null) return
  const reason = 'A sandbox has connected'
  addAction(sql, now, { action: 'breaker.closed', actor: 'breaker', provider, reason })
}

/**
 * It never connected. Why is for its own session to say: others are told which one that was, and none of its words.
 * `jitter`: from 0 up to 1, so that many organisations do not come back at the same moment.
 */
export function noteBreakerFailure(
  sql: Sql,
  now: number,
  firewall: Firewall,
  sandbox: Sandbox,
  jitter: number,
): void {
  const { provider } = sandbox
  sql.run(
    `insert into breakers (provider, failures, openings, last_reason) values (?1, 1, 0, ?2)
     on conflict (provider) do update set failures = failures + 1, last_reason = ?2`,
    provider,
    `Session "${sandbox.sessionId}" says why`,
  )
  const row = find(sql, provider)
  if (!row || row.failures < firewall.breakerFailures) return
  const isTrial = row.trial === nameOf(sandbox)
  // One that had begun before the breaker opened tells nothing new.
  if (row.openUntil !== null && !isTrial) return
  open(sql, now, firewall, row, jitter)
}

/** It ended before it could prove anything: the next one may try. */
export function releaseBreakerTrial(sql: Sql, sandbox: Sandbox): void {
  sql.run('update breakers set trial = null, trial_until = null where trial = ?', nameOf(sandbox))
}

function open(sql: Sql, now: number, firewall: Firewall, row: BreakerRow, jitter: number): void {
  const { breakerSeconds, breakerMaxSeconds } = firewall
  const seconds = Math.min(breakerMaxSeconds, breakerSeconds * 2 ** Math.min(row.openings, 20))
  const until = now + Math.ceil(seconds * (1 + jitter / 2) * 1000)
  sql.run(
    `update breakers set openings = openings + 1, open_until = ?, trial = null, trial_until = null
     where provider = ?`,
    until,
    row.provider,
  )
  addAction(sql, now, {
    action: 'breaker.opened',
    actor: 'breaker',
    provider: row.provider,
    reason: `${row.failures} sandboxes in a row never connected. ${row.lastReason ?? ''}`,
  })
}

export function listBreakers(sql: Sql, now: number): Breaker[] {
  return sql
    .all<BreakerRow>(`select ${columns} from breakers order by provider`)
    .map(({ provider, failures, openUntil, lastReason }) => ({
      provider,
      state: openUntil === null ? 'closed' : openUntil > now ? 'open' : 'half-open',
      failures,
      openUntil,
      lastReason,
    }))
}

function find(sql: Sql, provider: ProviderName): BreakerRow | undefined {
  return sql.all<BreakerRow>(`select ${columns} from breakers where provider = ?`, provider)[0]
}

const nameOf = ({ sessionId, generation }: Sandbox): string => `${sessionId}.${generation}`
