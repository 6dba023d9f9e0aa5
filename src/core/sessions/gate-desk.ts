import type { Manifest } from '../../contract/manifest.ts'
import type { Enforcement } from '../../contract/operation.ts'
import type { Policy } from '../../contract/policy.ts'
import { setDeadline } from '../deadlines.ts'
import { sandboxDefault } from '../permissions/sandbox-default.ts'
import type { Sql } from '../ports.ts'
import type { PolicyApi, PolicyName } from './api.ts'
import { decideParked, denyParked, hasParked, type Question, receiveAsk } from './asks.ts'
import type { BudgetDesk } from './budget-desk.ts'
import type { Caller } from './caller.ts'
import { callerSession, mustBeOpen } from './doors.ts'
import type { Kernel } from './kernel.ts'
import { saveEnforcement, saveLayout, savePolicy } from './policy-record.ts'
import type { SessionPolicy } from './session-policy.ts'

/** Where every tool of the sandbox asks. Nothing here waits for libSQL. */
export class GateDesk implements PolicyApi {
  readonly #kernel: Kernel
  readonly #policy: SessionPolicy
  readonly #budget: BudgetDesk

  constructor(kernel: Kernel, policy: SessionPolicy, budget: BudgetDesk) {
    this.#kernel = kernel
    this.#policy = policy
    this.#budget = budget
  }

  async receive(generation: number, question: Question): Promise<void> {
    const arrivedAt = this.#kernel.ports.now()
    await this.#budget.spend((sql, now, room) => {
      // While the organisation was asked the sandbox may have been replaced.
      if (this.#kernel.session().generation !== generation) return
      const turn = this.#policy.askingTurn()
      const asker = { generation, turnId: turn?.id ?? null, runId: turn?.runId ?? null }
      const answer = receiveAsk(sql, now, question, asker, () =>
        this.#policy.decideQuestion(sql, now, arrivedAt, question, turn, room),
      )
      if (answer) this.#kernel.answer([answer])
    })
    await this.#kernel.crash('ask.stored')
  }

  /** There may be budget again. What finds the session's slice used up waits for the next one. */
  decideParked(): void {
    if (!hasParked(this.#kernel.ports.sql)) return
    this.#kernel.commit((sql, now) => {
      const turn = this.#policy.askingTurn()
      const decide = (question: Question) =>
        this.#policy.decideQuestion(sql, now, now, question, turn)
      const { answers, short } = decideParked(sql, now, decide)
      this.#kernel.answer(answers)
      if (short) setDeadline(sql, 'slice', now)
    })
  }

  /** Nobody has raised the budget. */
  onPatience(): void {
    this.#kernel.commit((sql, now) => this.#kernel.answer(denyParked(sql, now)))
  }

  /** From the next question on. What is parked was asked under the one before, and stays so. */
  async setPolicy(caller: Caller, policy: Policy | null): Promise<PolicyName> {
    mustBeOpen(callerSession(this.#kernel, caller))
    this.#kernel.commit((sql) => savePolicy(sql, policy))
    this.#policy.changed()
    return this.policy(caller)
  }

  async policy(caller: Caller): Promise<PolicyName> {
    callerSession(this.#kernel, caller)
    const { name, version } = this.#policy.document() ?? sandboxDefault
    return { name, version }
  }

  /** Inside a commit. */
  saveEnforcement(sql: Sql, enforces: readonly Enforcement[]): void {
    saveEnforcement(sql, enforces)
    this.#policy.changed()
  }

  placeIs({ layout }: Manifest): void {
    this.#kernel.commit((sql) => saveLayout(sql, layout))
    this.#policy.changed()
  }
}
