import type { Amounts } from '../../src/contract/budget.ts'
import type {
  BudgetAnswer,
  BudgetClaim,
  Reservation,
  SandboxClaim,
  SandboxEnd,
} from '../../src/core/organisation/record/api.ts'
import type { OrganisationApi } from '../../src/core/organisation/organisation.ts'

interface Place {
  claim: SandboxClaim
  connected: boolean
  end: SandboxEnd | null
}

/** The organisation's books of sandboxes, without limits of its own. */
export class MemoryOrganisation {
  readonly places = new Map<string, Place>()
  lifetimeSeconds = 24 * 3600
  /** Given instead of a grant, one after the other; a function answers every claim. */
  refusals: Extract<Reservation, { granted: false }>[] = []
  /** So many of the next calls do not arrive. */
  fails = 0
  /** So many of the next calls are carried out, but their answers do not arrive. */
  losesAnswers = 0
  reserved = 0
  /** Of sessions that are erased. */
  readonly endedCreations: string[] = []
  /** What the session has said last. */
  heldBytes = 0
  /** Who keeps the shared budgets. Nobody: there is no end to them. */
  shared: Pick<OrganisationApi['budgets'], 'take' | 'giveBack'> | null = null
  budgetCalls = 0
  killReason: string | null = null
  budgetAway = false
  losesBudgetAnswers = 0

  /** Of the organisation's Api what a session asks for. */
  readonly api = {
    sandboxes: {
      reserve: (claim: SandboxClaim) => this.#reserve(claim),
      connected: (sessionId: string, generation: number) => this.#connected(sessionId, generation),
      ended: (sessionId: string, generation: number, end: SandboxEnd) =>
        this.#ended(sessionId, generation, end),
    },
    uploads: { hold: (_: string, bytes: number) => this.#hold(bytes) },
    creations: { end: (sessionId: string) => this.#endCreation(sessionId) },
    firewall: { killReason: async () => this.killReason },
    budgets: {
      take: (claim: BudgetClaim) => this.#take(claim),
      giveBack: (sessionId: string, number: number, spent: Amounts) =>
        this.#giveBack(sessionId, number, spent),
    },
  }

  async #reserve(claim: SandboxClaim): Promise<Reservation> {
    return this.#order(() => {
      const known = this.places.get(nameOf(claim))
      if (known?.end) return { granted: false, reason: 'It has ended', retryAt: null }
      const refusal = this.refusals.shift()
      if (refusal) return refusal
      this.reserved += 1
      if (!known) this.places.set(nameOf(claim), { claim, connected: false, end: null })
      return { granted: true, lifetimeSeconds: this.lifetimeSeconds }
    })
  }

  async #connected(sessionId: string, generation: number): Promise<void> {
    return this.#order(() => {
      const place = this.places.get(nameOf({ sessionId, generation }))
      if (place) place.connected = true
    })
  }

  async #ended(sessionId: string, generation: number, end: SandboxEnd): Promise<void> {
    return this.#order(() => {
      const place = this.places.get(nameOf({ sessionId, generation }))
      if (place) place.end ??= end
    })
  }

  async #endCreation(sessionId: string): Promise<void> {
    return this.#order(() => void this.endedCreations.push(sessionId))
  }

  async #hold(bytes: number): Promise<{ refusal: string | null }> {
    return this.#order(() => {
      this.heldBytes = bytes
      return { refusal: null }
    })
  }

  async #take(claim: BudgetClaim): Promise<BudgetAnswer> {
    const most = 1_000_000_000_000
    const granted = { wallMs: most, toolCalls: most, tokens: most, moneyMicros: most }
    return this.#budget(() => this.shared?.take(claim) ?? { granted, warnings: [] })
  }

  async #giveBack(sessionId: string, number: number, spent: Amounts): Promise<void> {
    return this.#budget(() => this.shared?.giveBack(sessionId, number, spent))
  }

  async #budget<T>(work: () => T | Promise<T>): Promise<T> {
    this.budgetCalls += 1
    if (this.budgetAway) throw new Error('The organisation is away')
    const answer = await work()
    if (this.losesBudgetAnswers > 0) {
      this.losesBudgetAnswers -= 1
      throw new Error('The answer of the organisation did not arrive')
    }
    return answer
  }

  /** Generations whose place nobody has given back. */
  live(): number[] {
    return [...this.places.values()].filter(({ end }) => !end).map(({ claim }) => claim.generation)
  }

  async #order<T>(work: () => T): Promise<T> {
    if (this.fails > 0) {
      this.fails -= 1
      throw new Error('The organisation is away')
    }
    const answer = work()
    if (this.losesAnswers > 0) {
      this.losesAnswers -= 1
      throw new Error('The answer of the organisation did not arrive')
    }
    return answer
  }
}

const nameOf = ({ sessionId, generation }: Pick<SandboxClaim, 'sessionId' | 'generation'>) =>
  `${sessionId}.${generation}`
