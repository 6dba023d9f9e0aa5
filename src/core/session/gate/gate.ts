import type { RoomOf } from '../../actor/room.ts'
import type { Enclosure, EnclosureReport } from '../../../contract/enclosure.ts'
import type { Manifest } from '../../../contract/manifest.ts'
import type { Enforcement } from '../../../contract/operation.ts'
import type { Policy } from '../../../contract/policy.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import { enforcementRefusal } from '../../abilities/enforcement.ts'
import { sandboxDefault } from '../../policy/builtin-policy.ts'
import type { Sql } from '../../ports.ts'
import type { ApprovalRow } from '../approvals/rows.ts'
import {
  answerApprovedQuestion,
  decideParkedQuestions,
  denyParkedQuestions,
  hasParkedQuestion,
  type Question,
  receiveQuestion,
} from './questions.ts'
import { activeExecutionStep } from '../executions/active.ts'
import type { SessionBudget } from '../budget/budget.ts'
import type { Caller } from '../record/caller.ts'
import { guardAttempt, guardSession, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import {
  savePolicyEnclosure,
  savePolicyEnforcement,
  savePolicyLayout,
  savePolicyRow,
} from './policy-row.ts'
import type { AskingTurn } from './judges.ts'
import type { SessionPolicy } from './policy.ts'
import { runOfTurn } from '../runs/rows.ts'

export interface GateApi {
  policy(caller: Caller): Promise<PolicyName>
  /** Null: the built-in one. */
  setPolicy(caller: Caller, policy: Policy | null): Promise<PolicyName>
}

export interface PolicyName {
  name: string
  version: number
  /** The built-in document under it, or "none". */
  extends: string
}

/**
 * Where every tool of the sandbox asks. A question is decided by the judges and recorded in one commit; what needs a
 * person becomes an approval, and what finds no budget is parked. Nothing here waits for libSQL. The link brings the
 * questions; approvals and the budget tell it when something that waits can be decided.
 */
export class Gate implements RoomOf<GateApi> {
  readonly api: GateApi = this
  readonly #kernel: SessionKernel
  readonly #policy: SessionPolicy
  readonly #budget: SessionBudget

  constructor(kernel: SessionKernel, policy: SessionPolicy, budget: SessionBudget) {
    this.#kernel = kernel
    this.#policy = policy
    this.#budget = budget
  }

  readonly receive = async (generation: number, question: Question): Promise<void> => {
    const arrivedAt = this.#kernel.ports.now()
    // Of its arrival: while the organisation is asked, another turn may begin.
    const turnId = question.turnId ?? this.#policy.askingTurn()?.id ?? null
    await this.#budget.spend((sql, now, headroom) => {
      // While the organisation was asked the sandbox may have been replaced.
      if (this.#kernel.session().generation !== generation) return
      const turn = this.#policy.askingTurn()
      const isOfTurn = turn !== null && turn.id === turnId
      const runId = isOfTurn ? turn.runId : turnId && runOfTurn(sql, turnId)
      const asker = { generation, turnId, runId }
      const answer = receiveQuestion(sql, now, question, asker, () =>
        this.#policy.decideQuestion(sql, now, arrivedAt, question, ofTurn(turn, turnId), headroom),
      )
      if (answer) this.#kernel.answer([answer])
    })
    await this.#kernel.crash('ask.stored')
  }

  /** There may be budget again. What finds the session's slice used up waits for the next one. */
  readonly decideParked = (): void => {
    if (!hasParkedQuestion(this.#kernel.ports.sql)) return
    this.#kernel.commit((sql, now) => {
      const turn = this.#policy.askingTurn()
      const decide = (question: Question, turnId: string | null) =>
        this.#policy.decideQuestion(sql, now, now, question, ofTurn(turn, turnId))
      const { answers, short } = decideParkedQuestions(sql, now, decide)
      this.#kernel.answer(answers)
      if (short) setDeadline(sql, 'slice', now)
    })
  }

  readonly deadlines = {
    // Nobody has raised the budget.
    'budget.ask': () =>
      this.#kernel.commit((sql, now) => this.#kernel.answer(denyParkedQuestions(sql, now))),
  }

  /** Inside the commit that resolves an approval: the question that waits for it learns of it. */
  readonly answered = (sql: Sql, now: number, approval: ApprovalRow): void => {
    const answer = answerApprovedQuestion(sql, now, approval, (asked) =>
      enforcementRefusal(activeExecutionStep(sql), asked),
    )
    if (answer) this.#kernel.answer([answer])
  }

  readonly enclosure = (): Enclosure => this.#policy.enclosure()

  /** From the next question on. What is parked was asked under the one before, and stays so. */
  async setPolicy(caller: Caller, policy: Policy | null): Promise<PolicyName> {
    guardOpenSession(guardSession(this.#kernel, caller))
    guardAttempt(this.#kernel, caller)
    this.#kernel.commit((sql) => savePolicyRow(sql, policy))
    this.#policy.changed()
    return this.policy(caller)
  }

  async policy(caller: Caller): Promise<PolicyName> {
    guardSession(this.#kernel, caller)
    const { name, version, builtin = 'none' } = this.#policy.document() ?? sandboxDefault
    return { name, version, extends: builtin }
  }

  /** Inside a commit. */
  readonly saveEnforcement = (sql: Sql, enforces: readonly Enforcement[]): void => {
    savePolicyEnforcement(sql, enforces)
    this.#policy.changed()
  }

  /** Inside a commit. */
  readonly saveEnclosure = (sql: Sql, generation: number, report?: EnclosureReport): void => {
    savePolicyEnclosure(sql, generation, report ?? unsaidEnclosure)
    this.#policy.changed()
  }

  readonly placeIs = ({ layout }: Manifest): void => {
    this.#kernel.commit((sql) => savePolicyLayout(sql, layout))
    this.#policy.changed()
  }
}

const unsaidEnclosure: EnclosureReport = {
  level: 'none',
  how: 'not told',
  why: 'The agent is older than this release and cannot say',
}

/** Null unless the turn in which it was asked still runs: a question is decided under its own turn, or denied. */
const ofTurn = (running: AskingTurn | null, turnId: string | null): AskingTurn | null =>
  running?.id === turnId ? running : null
