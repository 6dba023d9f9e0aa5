import type { PinnedFolder } from '../../../contract/ability-folder.ts'
import { ownedId } from '../../../contract/ids.ts'
import { AppError } from '../../../contract/error.ts'
import type { Answer } from '../../../contract/ask.ts'
import type {
  AbilityPlan,
  AbilityStatus,
  Execution,
  ExecutionCancel,
  ExecutionCreate,
  ExecutionRecord,
  ExecutionResume,
} from '../../../contract/execution.ts'
import { knownByKey, onceByKey } from '../../actor/keys.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import type { RoomOf } from '../../actor/room.ts'
import { Waiters } from '../../actor/waiters.ts'
import type { Written } from '../../actor/writes.ts'
import type { Sql } from '../../ports.ts'
import type { SessionBudget } from '../budget/budget.ts'
import {
  type AbilityCopy,
  activeExecution,
  type ExecutionRow,
  findExecution,
  saveExecutionCopy,
  type Starter,
} from '../executions/rows.ts'
import { activeExecutionLevel } from '../executions/active.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller, Listed, Page } from '../record/caller.ts'
import { guardAttempt, guardSession, guardEntry, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { recordPersonalMemoryWithdrawn } from '../record/record.ts'
import type { RunClose } from '../runs/runs.ts'
import { Asking, cancelAskedFor } from './asking.ts'
import { Children } from './children.ts'
import { type ExecutionEnd, Moves } from './moves.ts'
import { executionFiles } from './execution-files.ts'
import { outlineExecution, planExecution } from './execution-plan.ts'
import { Scripts } from './scripts.ts'
import { saveAbilitySecrets, SecretInputs, withoutSecrets } from './secrets.ts'
import {
  maskInputs,
  type PreparedStart,
  executionStartHash,
  executionStartInputs,
  secretsAmong,
  startExecution,
} from './execution-start.ts'
import { TurnSteps } from './turn-steps.ts'
import {
  viewExecutions,
  viewExecutionStatus,
  viewExecution,
  viewExecutionRecord,
} from './execution-view.ts'

/** What an execution begins with: the ability as it is now, and those that its workflow steps may call. */
export interface ExecutionGiven {
  create: ExecutionCreate
  ability: AbilityCopy
  nested: readonly AbilityCopy[]
}

export interface AbilitiesApi {
  /** One at a time in a session; the same key is the same execution. */
  execute(caller: Caller, given: ExecutionGiven, idempotencyKey: string | null): Promise<Execution>
  /** What the same key has made before, whatever has become of the ability since; null: nothing. */
  executed(
    caller: Caller,
    create: ExecutionCreate,
    idempotencyKey: string,
  ): Promise<Execution | null>
  /** What it would do. Decides nothing and writes nothing. */
  plan(caller: Caller, given: ExecutionGiven): Promise<AbilityPlan>
  /** What is at work in the session, if anything. */
  status(caller: Caller): Promise<AbilityStatus>
  /** With a wait it answers once the execution has ended, or waits for a person. */
  get(caller: Caller, executionId: string, waitMs: number): Promise<ExecutionRecord>
  /** The folder that runs: what whoever approves its plan answers for. */
  files(caller: Caller, executionId: string): Promise<PinnedFolder>
  /** Newest first. */
  list(caller: Caller, page: Page): Promise<Listed<Execution>>
  /** Final: what runs of it is stopped, and nothing of it begins any more. */
  cancel(caller: Caller, executionId: string, cancel: ExecutionCancel): Promise<Execution>
  /** What a person says of a step that asks. */
  resume(caller: Caller, executionId: string, resume: ExecutionResume): Promise<Execution>
}

/** What is done elsewhere. */
interface Neighbours {
  operations: Operations
  policy: SessionPolicy
  budget: SessionBudget
  stopRun: (sql: Sql, now: number, generation: number, runId: string, end: RunClose) => Answer[]
}

/**
 * Abilities at work. An execution is a row with its steps; it is moved by commits that read how its steps stand, so that a
 * death at any moment only means that the next look finds what is to be done. It promises one open execution per
 * session, that a step is begun once per try, and that a cancel is final. HTTP and the model's tools ask it.
 */
export class Abilities implements RoomOf<AbilitiesApi> {
  readonly api: AbilitiesApi = this
  readonly #kernel: SessionKernel
  readonly #budget: SessionBudget
  readonly #moves: Moves
  readonly #asking: Asking
  readonly #scripts: Scripts
  readonly #secrets: SecretInputs
  readonly #waiters = new Waiters()
  #isMoving = false
  #isStale = false
  /** What its own move has written is still to be told. */
  #hasMoved = false

  constructor(kernel: SessionKernel, neighbours: Neighbours) {
    const { operations, policy, budget, stopRun } = neighbours
    this.#kernel = kernel
    this.#budget = budget
    this.#secrets = new SecretInputs(kernel.ports.sql, kernel.ports.crypto)
    this.#scripts = new Scripts(operations, policy)
    this.#asking = new Asking(policy, () => this.#newId('apr'))
    const turns = new TurnSteps(kernel)
    const children = new Children({
      newId: (prefix) => this.#newId(prefix),
      begun: (sql, now, id) => this.#askForPlan(sql, now, id),
      end: (sql, now, child, error) =>
        this.#moves.end(sql, now, child, {
          ...{ cause: 'cancel', error, actor: 'ability', owner: null },
        }),
    })
    this.#moves = new Moves(
      {
        script: this.#scripts,
        ...{ agent: turns, skill: turns, approval: this.#asking, workflow: children },
      },
      {
        stopRun: (sql, now, runId, end) =>
          stopRun(sql, now, kernel.session().generation, runId, end),
        answer: (answers) => kernel.answer(answers),
        secrets: (id) => this.#secrets.of(id),
        state: () => kernel.executionsState,
      },
    )
  }

  async execute(caller: Caller, given: ExecutionGiven, key: string | null): Promise<Execution> {
    await guardEntry(this.#kernel, caller)
    const { keyId, memberId, owner, countsAs = null } = caller
    const starter: Starter = { kind: 'key', keyId, memberId, owner, countsAs }
    const prepared = await this.#prepare(given)
    const id = this.#kernel.commit((sql, now) =>
      onceByKey(sql, now, { scope: executeScope, key, body: given.create }, () => {
        const session = guardSession(this.#kernel, caller)
        guardOpenSession(session)
        guardAttempt(this.#kernel, caller)
        recordPersonalMemoryWithdrawn(sql, session, caller)
        return this.#start(sql, now, starter, prepared)
      }),
    )
    return viewExecution(this.#kernel.ports.sql, this.#must(id))
  }

  async executed(caller: Caller, body: ExecutionCreate, key: string): Promise<Execution | null> {
    await guardEntry(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const id = knownByKey(sql, { scope: executeScope, key, body })
    return id === null ? null : viewExecution(sql, this.#must(id))
  }

  /** By its tool, once per operation. */
  readonly runForModel = async (
    generation: number,
    operationId: string,
    given: ExecutionGiven,
  ): Promise<Execution> => {
    const prepared = await this.#prepare(given)
    const scope = { scope: 'ability.run', key: operationId, body: given.create }
    const id = this.#kernel.commit((sql, now) =>
      onceByKey(sql, now, scope, () => {
        guardOpenSession(this.#kernel.session())
        return this.#start(sql, now, { kind: 'sandbox', generation }, prepared)
      }),
    )
    return viewExecution(this.#kernel.ports.sql, this.#must(id))
  }

  /** A strict one goes on until a person agrees; others end, and it is on record who ended them. Null: none runs. */
  readonly cancelForModel = (
    generation: number,
    id: string | null,
    reason: string,
  ): { execution: Execution; approvalId: string | null } | null => {
    const row = activeExecution(this.#kernel.ports.sql)
    if (row === undefined || (id !== null && id !== row.id)) return null
    const why = this.#kernel.hide(reason)
    const approvalId = this.#kernel.commit((sql, now) => {
      if (activeExecutionLevel(sql, row) === 'strict') return this.#askToCancel(sql, now, row, why)
      const error = `Cancelled by the agent: ${why}`
      const actor = `sandbox ${generation}`
      this.#moves.end(sql, now, row, { cause: 'cancel', error, actor, owner: null })
      return null
    })
    return { execution: viewExecution(this.#kernel.ports.sql, this.#must(row.id)), approvalId }
  }

  /** Asked again while nobody has answered, it is the same question. */
  #askToCancel(sql: Sql, now: number, execution: ExecutionRow, reason: string): string {
    const asked = cancelAskedFor(sql, execution.id)
    if (asked?.state === 'pending') return asked.id
    return this.#asking.openForCancel(sql, now, execution, reason)
  }

  async plan(caller: Caller, given: ExecutionGiven): Promise<AbilityPlan> {
    await guardEntry(this.#kernel, caller)
    const prepared = await this.#prepare(given)
    const { sql, now } = this.#kernel.ports
    const values = executionStartInputs(given.ability.definition, given.create.inputs)
    const secrets = secretsAmong(given.ability.definition, values)
    return this.#kernel.hide(planExecution(sql, now(), prepared, this.#scripts, secrets))
  }

  /** What the caller has given, checked and with its secrets sealed. */
  async #prepare({ ability, nested, create }: ExecutionGiven): Promise<PreparedStart> {
    const given = executionStartInputs(ability.definition, create.inputs)
    const secrets = secretsAmong(ability.definition, given)
    const sealed = await this.#secrets.seal(secrets)
    const redact = <T>(value: T): T => this.#kernel.redact(withoutSecrets(secrets, value))
    const hashes = Object.fromEntries([ability, ...nested].map(({ name, hash }) => [name, hash]))
    const inputs = redact(maskInputs(ability.definition, given))
    const words = redact(create.input)
    const planHash = executionStartHash(ability, { nested: hashes, inputs, words })
    if (create.planHash !== undefined && create.planHash !== planHash)
      throw new AppError('wrong_state', 'Cannot execute: the plan has changed since it was made', [
        { path: 'planHash', message: `It would be ${planHash}` },
      ])
    const copies = [ability, ...nested]
    return { copies, ability, nested: hashes, inputs, sealed, planHash, words }
  }

  #start(sql: Sql, now: number, starter: Starter, prepared: PreparedStart): string {
    const active = activeExecution(sql)
    if (active)
      throw new AppError('wrong_state', `Already executing ability: ${active.ability}`, [
        { path: 'executionId', message: active.id },
      ])
    const { copies, sealed, ...start } = prepared
    for (const copy of copies) saveExecutionCopy(sql, now, copy)
    const [id, runId] = [this.#newId('exe'), this.#newId('run')]
    startExecution(sql, now, {
      ...start,
      ...{ id, runId, starter: JSON.stringify(starter), parent: null },
    })
    saveAbilitySecrets(sql, id, sealed)
    if (Object.keys(sealed).length > 0) this.#kernel.secretsChanged()
    this.#askForPlan(sql, now, id)
    // Whatever happens to this instance: somebody looks after it.
    setDeadline(sql, 'ability', now)
    return id
  }

  /** Where the author wants a person to see the plan first. */
  #askForPlan(sql: Sql, now: number, id: string): void {
    const execution = this.#must(id)
    if (execution.state !== 'planned') return
    const steps = this.#kernel.redact(outlineExecution(sql, execution))
    const approvalId = this.#asking.openForPlan(sql, now, execution, steps)
    sql.run('update executions set plan_approval_id = ? where id = ?', approvalId, id)
  }

  async status(caller: Caller): Promise<AbilityStatus> {
    guardSession(this.#kernel, caller)
    return viewExecutionStatus(this.#kernel.ports.sql)
  }

  async get(caller: Caller, id: string, waitMs: number): Promise<ExecutionRecord> {
    return this.#waiters.until(() => {
      guardSession(this.#kernel, caller)
      const value = viewExecutionRecord(this.#kernel.ports.sql, this.#must(id))
      const stands = value.status !== 'running' || value.waitsFor.length > 0
      return { value, done: waitMs === 0 || stands }
    }, this.#kernel.ports.host.sleep(waitMs))
  }

  async files(caller: Caller, id: string): Promise<PinnedFolder> {
    const { organisationId } = guardSession(this.#kernel, caller)
    const { hash } = this.#must(id)
    const files = await executionFiles(this.#kernel.ports, organisationId, hash)
    // After the wait: the session may have been erased meanwhile, or been given another secret.
    await guardEntry(this.#kernel, caller)
    return this.#kernel.hide({ files })
  }

  async list(caller: Caller, page: Page): Promise<Listed<Execution>> {
    guardSession(this.#kernel, caller)
    return viewExecutions(this.#kernel.ports.sql, page)
  }

  async cancel(caller: Caller, id: string, { reason }: ExecutionCancel): Promise<Execution> {
    await guardEntry(this.#kernel, caller)
    const why = this.#kernel.hide(reason)
    this.#kernel.commit((sql, now) => {
      const row = this.#must(id)
      if (row.state === 'cancelled') return
      const error = why === '' ? 'Cancelled by user' : `Cancelled by user: ${why}`
      const end: ExecutionEnd = {
        ...{ cause: 'cancel', error, actor: caller.keyId, owner: caller.owner },
      }
      if (!this.#moves.end(sql, now, row, end))
        throw new AppError('wrong_state', `Cannot cancel "${id}": it is ${row.state}`)
    })
    return viewExecution(this.#kernel.ports.sql, this.#must(id))
  }

  async resume(caller: Caller, id: string, resume: ExecutionResume): Promise<Execution> {
    guardOpenSession(await guardEntry(this.#kernel, caller))
    guardAttempt(this.#kernel, caller)
    const { stepId, answer } = resume
    const reason = this.#kernel.hide(resume.reason)
    const why = `${answer} by ${caller.owner || caller.keyId}${reason === '' ? '' : `: ${reason}`}`
    this.#kernel.commit((sql, now) => {
      if (!this.#moves.answered(sql, now, this.#must(id), { stepId, answer, why }))
        throw new AppError('wrong_state', `Cannot resume "${id}": step "${stepId}" does not ask`)
    })
    return viewExecution(this.#kernel.ports.sql, this.#must(id))
  }

  readonly deadlines = { ability: () => this.#move() }

  /** What steps wait for is told by these tables. */
  readonly written = (tables: Written): void => {
    if (!moved.some((table) => tables.has(table))) return
    this.#waiters.wake()
    // Of what a move writes and of what others write meanwhile one is not looked at; whichever it is, a look follows.
    if (this.#hasMoved) this.#hasMoved = false
    else this.goOn()
  }

  /** There may be something to do. */
  readonly goOn = (): void => {
    if (this.#moves.isAnyOpen(this.#kernel.ports.sql)) void this.#move()
  }

  /** One at a time; what comes meanwhile is looked at after it. What fails comes back by its deadline. */
  async #move(): Promise<void> {
    if (this.#isMoving) {
      this.#isStale = true
      return
    }
    this.#isMoving = true
    try {
      do {
        this.#isStale = false
        await this.#kernel.openSecrets()
        await this.#secrets.open(this.#kernel.secretsState)
        await this.#budget.spend((sql, now, headroom) => {
          // Another one may have begun while a slice was waited for: its secrets are opened first.
          if (this.#secrets.areOpen(this.#kernel))
            this.#hasMoved = this.#moves.advance(sql, now, headroom)
          else this.#isStale = true
        })
        this.#hasMoved = false
      } while (this.#isStale)
      if (!this.#moves.isAnyOpen(this.#kernel.ports.sql)) this.#secrets.close()
    } catch (error) {
      this.#putOff(error)
    } finally {
      this.#isMoving = false
      this.#hasMoved = false
    }
  }

  /** Nobody waits for a move, so what fails is not thrown: it comes back by its deadline, or with the next commit. */
  #putOff(reason: unknown): void {
    const { log } = this.#kernel.ports
    log('error', 'An execution could not be moved', { error: String(reason) })
    try {
      this.#kernel.commit((sql, now) => setDeadline(sql, 'ability', now + tryAgainMs))
    } catch (error) {
      log('error', 'And could not be put off', { error: String(error) })
    }
  }

  #must(id: string): ExecutionRow {
    const row = findExecution(this.#kernel.ports.sql, id)
    if (!row) throw new AppError('not_found', `No such execution: "${id}"`)
    return row
  }

  #newId(prefix: string): string {
    return ownedId(prefix, this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
  }
}

const tryAgainMs = 5000
const executeScope = 'ability.execute'
const moved = ['attempts', 'turns', 'approvals', 'runs', 'executions', 'execution_steps']
