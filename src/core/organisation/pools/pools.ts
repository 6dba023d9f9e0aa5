import { errorCodeOf, errorTable } from '../../../contract/error.ts'
import { clearTakenDeadline, putOffTakenDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { shorten } from '../record/actions.ts'
import type { RoomOf } from '../../actor/room.ts'
import { keepCreationsMs, type PoolsApi } from '../record/api.ts'
import type { OrganisationKernel } from '../record/kernel.ts'
import type { WarmPlan } from '../record/ports.ts'
import { claimWarm, warmFailed, returnWarm, warmChanged } from './warm-sessions.ts'
import { decideGrowth } from './growth.ts'
import {
  deletePool,
  deletePoolRow,
  ensurePool,
  findPool,
  findPoolRow,
  insertPoolRow,
  listPools,
  movePoolRow,
  type PoolRow,
  putOffPool,
  rowsInPool,
  savePool,
  viewPool,
  waitingPoolRows,
  type WarmRow,
} from './rows.ts'

/** Configurations and secrets change without a word to anybody here; a claim looks at the version, too. */
const lookMs = 5 * 60_000
/** Whoever has claimed one and not come for it by then does not come any more. */
const claimMs = 10 * 60_000
/** It waits for a place, or for a provider: another one may have more luck. */
const startMs = 60 * 60_000

/**
 * The room of the warm pools. Creations claim and return sessions, warm sessions say how they are, and whoever changes a
 * configuration has its pool looked at.
 */
export function createPools(kernel: OrganisationKernel): RoomOf<PoolsApi> {
  const pools = new WarmPools(kernel)
  return {
    api: {
      claim: async (claim) => kernel.commit((sql, now) => claimWarm(sql, now, claim)),
      giveBack: async (end) => kernel.commit((sql, now) => returnWarm(sql, now, end)),
      changed: async (sessionId, state, reason) =>
        kernel.commit((sql, now) => warmChanged(sql, now, { sessionId, state, reason })),
      watch: async (configurationId) =>
        kernel.commit((sql, now) => watch(sql, now, configurationId)),
      view: async (configurationId) => kernel.read((sql) => viewPool(sql, configurationId)),
    },
    deadlines: { warm: () => pools.onDeadline() },
  }
}

function watch(sql: Sql, now: number, configurationId: string): void {
  ensurePool(sql, configurationId)
  // Whatever failed before, something is different now.
  putOffPool(sql, configurationId, { failures: 0, retryAt: null, reason: null })
  setDeadline(sql, 'warm', now)
}

/**
 * Keeps sessions booted for those to come, for each configuration that wants it. At the deadline `warm` it compares each
 * pool with its plan, creates what is missing, drops what is too much or of an old version, and takes back what was
 * claimed and never fetched. While libSQL cannot be read, a pool stays as it is. Each step may be repeated after a crash.
 */
class WarmPools {
  readonly #kernel: OrganisationKernel

  constructor(kernel: OrganisationKernel) {
    this.#kernel = kernel
  }

  async onDeadline(): Promise<void> {
    for (const pool of this.#kernel.read(listPools)) await this.#look(pool)
    this.#kernel.commit((sql, now) => tidy(sql, now))
    await Promise.all(
      this.#kernel.read((sql) => rowsInPool(sql, 'dropped')).map((row) => this.#drop(row)),
    )
    await this.#fetchUnclaimed()
    this.#kernel.commit((sql, now) => setNextLook(sql, now))
  }

  /** While libSQL is away the pool stays as it is. */
  async #look({ configurationId }: PoolRow): Promise<void> {
    try {
      const { warm, id } = this.#kernel.ports
      const plan = await warm.plan(id, configurationId)
      if (plan === null || plan.size === 0) return this.#end(configurationId)
      const added = await this.#mint(plan)
      const made = this.#kernel.commit((sql, now) => this.#fit(sql, now, plan, added))
      await Promise.all(made.map((row) => this.#create(row, plan)))
    } catch (error) {
      this.#warn('Cannot look after a warm pool, will try again', configurationId, error)
    }
  }

  /** As many as there may be need for: how many are used is decided in the commit. */
  #mint({ size }: WarmPlan): Promise<string[]> {
    const { warm } = this.#kernel.ports
    return Promise.all(Array.from({ length: size }, () => warm.mintSessionId()))
  }

  #end(configurationId: string): void {
    this.#kernel.commit((sql, now) => {
      for (const { sessionId } of waitingPoolRows(sql, configurationId))
        movePoolRow(sql, now, sessionId, 'dropped')
      deletePool(sql, configurationId)
    })
  }

  /** Gives the sessions that are to be made: those that are new, and those whose creation nobody has confirmed. */
  #fit(sql: Sql, now: number, plan: WarmPlan, freshIds: string[]): WarmRow[] {
    const { configurationId, version, size } = plan
    savePool(sql, plan)
    const rows = waitingPoolRows(sql, configurationId)
    const fitting = rows.filter((row) => row.version === version)
    const excess = fitting.slice(0, Math.max(0, fitting.length - size))
    for (const row of rows)
      if (row.version !== version || excess.includes(row))
        movePoolRow(sql, now, row.sessionId, 'dropped')
    const short = size - fitting.length
    const growth = decideGrowth(sql, now, this.#kernel.ports.firewall, plan, short)
    for (const sessionId of freshIds.slice(0, growth))
      insertPoolRow(sql, now, { sessionId, configurationId, version })
    if ((findPool(sql, configurationId)?.retryAt ?? 0) > now) return []
    return waitingPoolRows(sql, configurationId).filter(({ state }) => state === 'new')
  }

  async #create({ sessionId }: WarmRow, { create, configurationId }: WarmPlan): Promise<void> {
    try {
      await this.#kernel.ports.session(sessionId).self.create({ ...create, sessionId, warm: true })
      this.#kernel.commit((sql, now) => {
        if (findPoolRow(sql, sessionId)?.state === 'new')
          movePoolRow(sql, now, sessionId, 'starting')
      })
    } catch (error) {
      this.#warn('Cannot make a warm session', configurationId, error)
      this.#kernel.commit((sql, now) => {
        const code = errorCodeOf(error)
        warmFailed(sql, now, configurationId, shorten(messageOf(error)))
        // A refusal has made nothing. After any other failure it may be there, and is made again.
        if (code !== undefined && !errorTable[code].retryable) deletePoolRow(sql, sessionId)
      })
    }
  }

  async #drop({ sessionId, configurationId }: WarmRow): Promise<void> {
    try {
      const isGone = await this.#dropSession(sessionId)
      this.#kernel.commit((sql, now) => {
        if (isGone) deletePoolRow(sql, sessionId)
        else movePoolRow(sql, now, sessionId, 'adopted')
      })
    } catch (error) {
      this.#warn('Cannot drop a warm session, will try again', configurationId, error)
    }
  }

  async #dropSession(sessionId: string): Promise<boolean> {
    const { ports } = this.#kernel
    try {
      return await ports
        .session(sessionId)
        .warm.drop({ organisationId: ports.id }, 'No longer wanted')
    } catch (error) {
      if (errorCodeOf(error) === 'not_found') return true
      throw error
    }
  }

  /** Their creations have died before they could adopt them, or have adopted them and nobody has heard of it. */
  async #fetchUnclaimed(): Promise<void> {
    const { now } = this.#kernel.ports
    const overdue = this.#kernel.read((sql) => rowsInPool(sql, 'claimed', now() - claimMs))
    await Promise.all(overdue.map((row) => this.#drop(row)))
  }

  #warn(message: string, configurationId: string, error: unknown): void {
    const fields = {
      organisationId: this.#kernel.ports.id,
      configurationId,
      error: messageOf(error),
    }
    this.#kernel.ports.log('warn', message, fields)
  }
}

function tidy(sql: Sql, now: number): void {
  for (const { sessionId } of rowsInPool(sql, 'adopted', now - keepCreationsMs))
    deletePoolRow(sql, sessionId)
  for (const state of ['new', 'starting'] as const)
    for (const { sessionId } of rowsInPool(sql, state, now - startMs))
      movePoolRow(sql, now, sessionId, 'dropped')
}

/** Unless somebody has set it anew meanwhile: then it is due already. */
function setNextLook(sql: Sql, now: number): void {
  const isEmpty =
    sql.all('select 1 from warm_pools union all select 1 from warm_sessions').length === 0
  if (isEmpty) return clearTakenDeadline(sql, 'warm')
  const retries = listPools(sql).flatMap(({ retryAt }) => retryAt ?? [])
  putOffTakenDeadline(
    sql,
    'warm',
    Math.min(now + lookMs, ...retries.filter((retryAt) => retryAt > now)),
  )
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
