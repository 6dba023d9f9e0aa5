import type { RoomOf } from '../../actor/room.ts'
import { AppError } from '../../../contract/error.ts'
import { type Model, opencodeProviderOf, type OpencodeProvider } from '../../../contract/models.ts'
import type { SessionBudget } from '../budget/budget.ts'
import {
  beginModelCall,
  begunSince,
  callDeadline,
  type CallEnd,
  countHelperModelCalls,
  type Estimate,
  extendModelCall,
  type PriceOf,
  pricesOf,
  reservedByModelCalls,
  settleModelCall,
  settleExpiredModelCalls,
} from '../budget/model-calls.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { modelsOfSubagents, pinnedAgents } from '../pins/agents.ts'
import { guardSession, guardOpenSession, guardOpenSandbox } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { messageOf, outsideOrganisation } from '../record/outside.ts'
import { runningTurn } from '../turns/rows.ts'

/** What a sandbox wants of a vendor, as read off its request. */
export interface ModelCall {
  /** Names the call, so that it is settled once. */
  id: string
  provider: OpencodeProvider
  /** As the vendor spells it. Null: it only asks which there are. */
  model: string | null
  /** Null: nothing is made, so nothing is reserved. */
  needs: { inputTokens: number; hasFiles: boolean; outputTokens: number | null } | null
  bodyBytes: number
  hasTools: boolean
}

export type ModelAdmission =
  | { admitted: true }
  | { admitted: false; reason: string; waitMs: number }

export interface ModelsApi {
  /** Whether the call may be made. If so, the most that it can use is reserved. */
  admit(sandbox: SandboxCaller, call: ModelCall): Promise<ModelAdmission>
  /** Its answer still comes. */
  extend(caller: Pick<SandboxCaller, 'organisationId'>, id: string): Promise<void>
  /** The first end of a call counts, also that of a replaced sandbox: it was let in when the call began. */
  settle(caller: Pick<SandboxCaller, 'organisationId'>, id: string, end: CallEnd): Promise<void>
}

/** Titles and summaries, which OpenCode may want outside of a turn: few, short and without tools. */
const helperCalls = 4
const helperBytes = 256 * 1024
/** Vendors wrap a request in words of their own. */
const wrappingTokens = 1024
const waitForOthersMs = 10_000
/** In place of a turn's id: no turn is charged, and no helper call is used up. */
const outsideOfTurns = ''

const spelled = (model: Model): string => `"${model.apiId}" of "${opencodeProviderOf(model)}"`

/**
 * Which model calls of its sandbox a session lets pass, and what they have used. A call passes for the session's own
 * model or one of its subagents', while a turn runs, within rate and budget, and with no kill switch on. Its reservation outlives this instance
 * and ends by a deadline (budget/model-calls.ts). The route of the model vendors asks before each call and tells its end.
 */
export class Models implements RoomOf<ModelsApi>, ModelsApi {
  readonly api: ModelsApi = this
  readonly #kernel: SessionKernel
  readonly #budget: SessionBudget
  readonly #priceOf: PriceOf

  constructor(kernel: SessionKernel, budget: SessionBudget) {
    this.#kernel = kernel
    this.#budget = budget
    this.#priceOf = pricesOf(kernel.ports.config.models)
  }

  readonly deadlines = {
    [callDeadline]: () =>
      this.#kernel.commit((sql, now) => settleExpiredModelCalls(sql, now, this.#priceOf)),
  }

  async admit(sandbox: SandboxCaller, call: ModelCall): Promise<ModelAdmission> {
    // Before anybody else is asked, and again after the wait: much can have happened meanwhile.
    const early = this.#decide(sandbox, call)
    if (early.wait) return early.wait
    await this.#mustNotBeKilled()
    const estimate = estimateOf(call, early.model)
    const admission = await this.#budget.reserve(estimate, (sql, now): ModelAdmission => {
      const { wait, turnId, model } = this.#decide(sandbox, call)
      if (wait) return wait
      beginModelCall(sql, now, { id: call.id, turnId, model: model.id, ...estimate })
      return { admitted: true }
    })
    return (
      admission ?? later('Open model calls have reserved the rest of the budget', waitForOthersMs)
    )
  }

  async extend(caller: Pick<SandboxCaller, 'organisationId'>, id: string): Promise<void> {
    guardSession(this.#kernel, caller)
    this.#kernel.commit((sql, now) => extendModelCall(sql, now, id))
  }

  async settle(
    caller: Pick<SandboxCaller, 'organisationId'>,
    id: string,
    end: CallEnd,
  ): Promise<void> {
    guardSession(this.#kernel, caller)
    this.#kernel.commit((sql, now) => settleModelCall(sql, now, id, end, this.#priceOf))
  }

  /** Throws what no waiting mends. */
  #decide(sandbox: SandboxCaller, call: ModelCall): Decision {
    guardOpenSession(guardOpenSandbox(this.#kernel, sandbox))
    const own = this.#served(this.#kernel.session().model)
    if (call.model === null) return { model: own, turnId: outsideOfTurns, wait: this.#mustWait() }
    const models = [own, ...this.#subagentModels().map((id) => this.#served(id))]
    const model = models.find(
      (one) => opencodeProviderOf(one) === call.provider && one.apiId === call.model,
    )
    if (!model) throw refusal(`this session uses ${models.map(spelled).join(', ')} and no other`)
    return { model, turnId: this.#turnOf(call), wait: this.#mustWait() }
  }

  /** Which never change. */
  #subagentModels(): string[] {
    this.#ofSubagents ??= modelsOfSubagents(pinnedAgents(this.#kernel.ports.sql))
    return this.#ofSubagents
  }
  #ofSubagents: string[] | undefined

  #served(model: string): Model {
    const row = this.#kernel.ports.config.models.find(({ id }) => id === model)
    if (!row) throw refusal(`this deployment does not serve "${model}" any more`)
    return row
  }

  /** Null: a helper call. */
  #turnOf({ hasTools, bodyBytes }: ModelCall): string | null {
    const { sql } = this.#kernel.ports
    const turn = runningTurn(sql)
    if (turn?.abort_requested) throw refusal('the turn is being aborted')
    if (turn) return turn.id
    if (hasTools) throw refusal('no turn is running')
    if (bodyBytes > helperBytes)
      throw refusal(`no turn is running, and outside of one at most ${helperBytes} bytes are sent`)
    if (countHelperModelCalls(sql) >= helperCalls)
      throw refusal(`no turn is running, and there were ${helperCalls} calls since the last one`)
    return null
  }

  #mustWait(): Exclude<ModelAdmission, { admitted: true }> | null {
    const { sql, now, config } = this.#kernel.ports
    const { modelCallsPerMinute, concurrentModelCalls } = config.modelLimits
    if (reservedByModelCalls(sql).calls >= concurrentModelCalls)
      return later(`${concurrentModelCalls} model calls of this session are open`, waitForOthersMs)
    const oldest = begunSince(sql, now() - 60_000, modelCallsPerMinute)
    if (oldest === null) return null
    const reason = `${modelCallsPerMinute} model calls of this session began within a minute`
    return later(reason, Math.max(1, oldest + 60_000 - now()))
  }

  /** Asked each time: until every sandbox has been told to stop, this is what holds. */
  async #mustNotBeKilled(): Promise<void> {
    const organisation = outsideOrganisation(this.#kernel)
    const killed = await organisation.firewall.killReason().catch((error: unknown) => {
      throw new AppError(
        'model_unavailable',
        `Cannot ask the organisation for its kill switch: ${messageOf(error)}`,
      )
    })
    if (killed !== null) throw refusal(killed)
  }
}

interface Decision {
  model: Model
  turnId: string | null
  wait: Exclude<ModelAdmission, { admitted: true }> | null
}

const refusal = (why: string) => new AppError('model_refused', `Cannot call a model: ${why}`)

const later = (reason: string, waitMs: number) => ({ admitted: false as const, reason, waitMs })

/** The most that it can use: no token is shorter than a byte, and a file may hold more than its bytes show. */
function estimateOf({ needs }: ModelCall, model: Model): Estimate {
  if (needs === null) return { inputTokens: 0, outputTokens: 0, moneyMicros: 0 }
  const { price, context, output } = model
  const read = needs.hasFiles ? Math.max(needs.inputTokens, context) : needs.inputTokens
  const inputTokens = read + wrappingTokens
  const outputTokens = needs.outputTokens ?? output
  const moneyMicros = price
    ? Math.ceil(
        inputTokens * Math.max(price.input, price.cacheWrite ?? 0) + outputTokens * price.output,
      )
    : 0
  return { inputTokens, outputTokens, moneyMicros }
}
