import type { EvalRunCreate } from '../../src/contract/eval-run.ts'
import { AppError } from '../../src/contract/error.ts'
import type { RegistryRevision } from '../../src/contract/promotion.ts'
import type { SessionCreate } from '../../src/contract/session.ts'
import { EvalRunActor } from '../../src/core/eval-run/eval-run.ts'
import { planEvalRun } from '../../src/core/eval-run/plan.ts'
import type { ModelAnswer, ModelQuestion } from '../../src/core/eval-run/record/ask-model.ts'
import type { AttemptSession } from '../../src/core/eval-run/record/ports.ts'
import { checkEvalFiles } from '../../src/core/evals/files/check.ts'
import type { Sql } from '../../src/core/ports.ts'
import type { AttemptTerms } from '../../src/core/session/record/attempt-terms.ts'
import type { Caller } from '../../src/core/session/record/caller.ts'
import { MemoryLedger } from './memory-ledger.ts'
import { memorySql } from './sql.ts'

export const evalCaller: Caller = {
  organisationId: `org_${'1'.repeat(20)}`,
  keyId: 'key_1',
  memberId: 'mbr_1',
  owner: 'anna',
  scopes: ['admin'],
  limits: null,
}

type Json = ReturnType<typeof JSON.parse>
interface Report {
  status: string
  output: string
  truncated: boolean
  exitCode: number | null
  error: string | null
  stderr?: string
  timedOut?: true
}
export const evalReport = (more: Partial<Report> = {}): Report => ({
  ...{ status: 'succeeded', output: '', truncated: false, exitCode: 0, error: null },
  ...more,
})

/** The session of an attempt, as far as an eval run sees it. The test says what happens in it. */
export class ScriptedSession {
  readonly input: SessionCreate
  readonly terms: AttemptTerms
  readonly key: string
  sandbox = { state: 'ready', reason: null as string | null, provider: 'local' }
  /** It is deleted: whatever is asked of it is refused. */
  isGone = false
  #turn: Json = { state: 'queued', reason: null, runId: null, startedAt: null, endedAt: null }
  #woken: (() => void)[] = []
  events: { seq: number; kind: string; data: Json }[] = []
  facts: Json = { workspace: '/w', blocked: null, denied: [], bypassed: [] }
  usedUsd = 0
  diff: string[] = []
  /** What else the session says of its diff. */
  diffMore: Json = {}
  changes: Json = { files: [], collects: [], nextCursor: null }
  /** What a command or a read comes to: null: it still moves; a text: it was refused. */
  carryOut: (operation: Json) => Report | string | null = () => evalReport()
  readonly prompts: { text: string; caller: Json; key: string }[] = []
  readonly carried: { operation: Json; key: string }[] = []
  readonly aborted: string[] = []
  closed: string[] = []
  erased = 0

  readonly #sleep: (ms: number) => Promise<void>

  constructor(
    sleep: (ms: number) => Promise<void>,
    input: SessionCreate,
    terms: AttemptTerms,
    key: string,
  ) {
    this.#sleep = sleep
    this.input = input
    this.terms = terms
    this.key = key
  }

  get turn(): Json {
    return this.#turn
  }

  set turn(turn: Json) {
    this.#turn = turn
    for (const wake of this.#woken.splice(0)) wake()
  }

  answer(text: string, startedAt = 1000, endedAt = 1500): void {
    const part = { sessionId: 'oc', messageId: 'm', partId: 'p' }
    this.emit('message.text', { ...part, text, reasoning: false })
    this.turn = { ...this.turn, state: 'completed', startedAt, endedAt }
  }

  emit(kind: string, data: object): void {
    this.events.push({ seq: this.events.length + 1, kind, data })
  }

  #mustBeThere(): void {
    if (this.isGone) throw new AppError('not_found', 'No such session')
  }

  #operation(operation: Json, key: string): string {
    const known = this.carried.findIndex((one) => one.key === key)
    if (known !== -1) return String(known)
    this.carried.push({ operation, key })
    return String(this.carried.length - 1)
  }

  readonly api = {
    self: {
      view: async () => {
        this.#mustBeThere()
        return { sandbox: this.sandbox, status: 'open' }
      },
      abort: async (_: Caller, reason: string) => {
        this.#mustBeThere()
        this.aborted.push(reason)
      },
      close: async (_: Caller, reason: string) => {
        this.#mustBeThere()
        this.closed.push(reason)
      },
      erase: async () => {
        this.#mustBeThere()
        this.erased += 1
      },
    },
    turns: {
      prompt: async (caller: Caller, { text }: Json, key: string) => {
        this.prompts.push({ text, caller, key })
        return { id: 'trn_1' }
      },
      wait: async (_: Caller, __: string, ms: number) => {
        const isOpen = this.turn.state === 'queued' || this.turn.state === 'running'
        const woken = new Promise<void>((wake) => void this.#woken.push(wake))
        if (isOpen) await Promise.race([this.#sleep(ms), woken])
        return this.turn
      },
      get: async () => this.turn,
    },
    log: {
      events: async (_: Caller, after: number, limit: number) =>
        this.events.filter(({ seq }) => seq > after).slice(0, limit),
    },
    evals: {
      facts: async () => this.facts,
      run: async (_: Caller, command: Json, key: string) => this.#operation(command, key),
      read: async (_: Caller, path: string, key: string) => this.#operation({ read: path }, key),
    },
    operations: {
      get: async (_: Caller, id: string) => {
        const ended = this.carryOut(this.carried[Number(id)]!.operation)
        if (typeof ended === 'string') return { reason: ended, attempts: [] }
        const status = ended === null ? 'reserved' : 'ended'
        return {
          reason: '',
          attempts: [{ status, suspectSince: null, reason: null, report: ended }],
        }
      },
    },
    changes: {
      diff: async () => ({
        ...{ at: 1, truncated: false, leftOut: [], files: this.diff.map((path) => ({ path })) },
        ...this.diffMore,
      }),
    },
    evidence: { list: async () => this.changes },
    budget: { view: async () => ({ used: { moneyUsd: this.usedUsd } }) },
  } as unknown as AttemptSession
}

interface Asked extends Partial<Pick<EvalRunCreate, 'cases' | 'repetitions' | 'runTargets'>> {
  workers?: number
  budget?: EvalRunCreate['budget']
  streamLogs?: boolean
  verbose?: boolean
}

/** One eval run over its ports, with a clock that only tests move. Sessions and models are the test's. */
export class EvalWorld {
  now = 1_000_000
  readonly ledger = new MemoryLedger()
  readonly sessions: ScriptedSession[] = []
  readonly asked: ModelQuestion[] = []
  readonly logs: string[] = []
  answerModel: (question: ModelQuestion) => Promise<ModelAnswer> = () => new Promise(() => {})
  /** As soon as a session is made, before anything is asked of it. */
  whenMade: (session: ScriptedSession) => void = () => {}
  /** Before a session is made: may throw. */
  beforeSession: () => void | Promise<void> = () => {}
  tried: RegistryRevision[] = []
  model = 'claude'
  memories: string[] = []
  isErased = false
  actor: EvalRunActor
  #sql: Sql = memorySql()
  #alarm: number | null = null
  readonly #sleepers: { at: number; wake: () => void }[] = []

  constructor() {
    this.actor = this.#start()
  }

  /** The instance dies; what was on its way comes to nothing, and another one goes on. */
  restart(): void {
    this.#sleepers.length = 0
    this.actor = this.#start()
  }

  #start(): EvalRunActor {
    const sleep = (ms: number) =>
      new Promise<void>((wake) => void this.#sleepers.push({ at: this.now + ms, wake }))
    return new EvalRunActor({
      sql: this.#sql,
      host: {
        arm: (at) => void (this.#alarm = at),
        sleep,
        erase: async () => {
          this.isErased = true
          this.#alarm = null
        },
      },
      now: () => this.now,
      crypto: { random: (length) => 'r'.repeat(length) },
      ledger: () => this.ledger,
      session: (id) => this.session(id).api,
      beginSession: async (_caller, input, terms, key) => {
        await this.beforeSession()
        const known = this.sessions.findIndex((one) => one.key === key)
        const at = known === -1 ? this.sessions.length : known
        if (known === -1) {
          const session = new ScriptedSession(sleep, input, terms, key)
          this.sessions.push(session)
          this.whenMade(session)
        }
        const began = { model: this.model, memories: this.memories }
        return { id: `ses_${at}`, tried: this.tried, began }
      },
      askModel: (_, question) => {
        this.asked.push(question)
        return this.answerModel(question)
      },
      config: { publicUrl: 'https://g.example', retentionMs: 86_400_000 },
      log: (_, message) => void this.logs.push(message),
    })
  }

  session(id: string): ScriptedSession {
    const found = this.sessions[Number(id.slice(4))]
    if (found === undefined) throw new AppError('not_found', 'No such session')
    return found
  }

  async create(cases: object[], targets: object[], asked: Asked = {}): Promise<void> {
    const { workers = 4, budget = {}, streamLogs = true, verbose = false, ...chosen } = asked
    const suite = JSON.stringify({ dataset: 'd', evalcases: cases })
    const checked = checkEvalFiles({
      ...{ suite: 's.json', targets: 't.json', variables: {} },
      files: [
        { path: 's.json', content: suite },
        { path: 't.json', content: JSON.stringify({ targets }) },
      ],
    })
    await this.actor.api.runs.create({
      ...planEvalRun(checked, chosen),
      ...{ id: 'evl_1', caller: evalCaller, project: 'p', dataset: 'd', digest: 'digest' },
      ...{ problems: checked.problems, workers, budget, streamLogs, verbose },
    })
  }

  /** Every alarm until then. */
  async live(ms = 0): Promise<void> {
    const until = this.now + ms
    for (let rounds = 0; rounds < 2000; rounds += 1) {
      await settled()
      const next = Math.min(this.#alarm ?? Infinity, ...this.#sleepers.map(({ at }) => at))
      if (next > until) break
      this.now = Math.max(this.now, next)
      for (const sleeper of this.#sleepers.filter(({ at }) => at <= this.now)) {
        this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1)
        sleeper.wake()
      }
      if (this.#alarm !== null && this.#alarm <= this.now) void this.actor.runDue()
    }
    this.now = until
    await settled()
  }

  readonly view = (caller = evalCaller) => this.actor.api.runs.view(caller)
  readonly attempts = async () =>
    (await this.actor.api.runs.attempts(evalCaller, { limit: 500, after: null })).items
  readonly results = async () => (await this.attempts()).map(({ result }) => result)
  readonly events = async (kind: string) =>
    (await this.actor.api.runs.events(evalCaller, 0, 500, 0)).filter((one) => one.kind === kind)
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

export const evalCase = (id: string, more: object = {}): object => ({
  ...{ id, expected_outcome: 'done', input_messages: [{ role: 'user', content: `Do ${id}` }] },
  execution: { evaluators: [{ name: 'says', type: 'contains', value: 'hello' }] },
  ...more,
})
