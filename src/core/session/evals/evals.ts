import { ownedId } from '../../../contract/ids.ts'
import { AppError } from '../../../contract/error.ts'
import type { Operation } from '../../../contract/operation.ts'
import { onceByKey } from '../../actor/keys.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { RunHistory } from '../../evals/files/from-run.ts'
import type { Sql } from '../../ports.ts'
import { diffCommit } from '../changes/diff.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller } from '../record/caller.ts'
import { guardSession, guardEntry, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { insertRun, evalWorkflow, mustRun } from '../runs/rows.ts'

/** What its eval run must know of an attempt, beside its turn and its events. */
export interface AttemptFacts {
  /** Where it works; null: no sandbox has been made yet. */
  workspace: string | null
  /** The first question that the target has rejected: what was asked, and why it asked. */
  blocked: { title: string; reason: string } | null
  denied: { tool: string; reason: string }[]
  bypassed: { tool: string; reason: string }[]
}

export interface AttemptCommand {
  command: string
  cwd?: string
  timeoutMs: number
  environment?: Record<string, string>
}

export interface EvalsApi {
  facts(caller: Caller): Promise<AttemptFacts>
  /**
   * Runs a command in the attempt's workspace without network, decided by its policy as the same command of the agent
   * would be. The same key runs it once. Gives the operation.
   */
  run(caller: Caller, command: AttemptCommand, key: string): Promise<string>
  /** Reads a file of the workspace. */
  read(caller: Caller, path: string, key: string): Promise<string>
  /** Of any run: what an eval case is made of. Without the secrets that are known now. */
  history(caller: Caller, runId: string): Promise<RunHistory>
}

/**
 * The session as an attempt of an eval run: what came of its questions, and what its evaluators have it do. The eval run
 * asks it; a session that is no attempt evaluates nothing.
 */
export class Evals implements RoomOf<EvalsApi> {
  readonly api: EvalsApi = this
  readonly #kernel: SessionKernel
  readonly #policy: SessionPolicy
  readonly #operations: Operations

  constructor(kernel: SessionKernel, policy: SessionPolicy, operations: Operations) {
    this.#kernel = kernel
    this.#policy = policy
    this.#operations = operations
  }

  async facts(caller: Caller): Promise<AttemptFacts> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const [blocked = null] = sql.all<{ title: string; reason: string }>(
      `select title, reason from approvals where kind = 'eval' and state = 'rejected' order by n limit 1`,
    )
    return {
      workspace: this.#policy.place().layout?.workspace ?? null,
      blocked,
      denied: refusals(sql, 'gate.decided', `data ->> '$.decision' = 'deny'`),
      bypassed: refusals(sql, 'gate.bypassed', 'true'),
    }
  }

  async history(caller: Caller, runId: string): Promise<RunHistory> {
    await guardEntry(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const { n } = mustRun(sql, runId)
    const turns = sql.all<{ prompt: string; text: string | null }>(
      'select prompt, text from turns where run_id = ? order by n limit 100',
      runId,
    )
    const verified = sql.all<{ command: string }>(
      `select distinct data ->> '$.command' as command from run_events
       where run_id = ? and kind = 'verification.ended' and json_extract(data, '$.passed') is 1
         and json_type(data, '$.command') = 'text' and length(data ->> '$.command') between 1 and 32768 limit 20`,
      runId,
    )
    return this.#kernel.hide({
      prompts: turns.map(({ prompt }) => prompt),
      answer: turns.at(-1)?.text ?? null,
      commands: verified.map(({ command }) => command),
      commit: diffCommit(sql),
      isFirst: sql.all('select 1 from runs where n < ? limit 1', n).length === 0,
    })
  }

  async run(caller: Caller, given: AttemptCommand, key: string): Promise<string> {
    const { command, cwd, timeoutMs, environment } = given
    return this.#start(caller, key, given, {
      category: 'shell',
      operation: 'run',
      command,
      ...(cwd !== undefined && { cwd }),
      ...(environment !== undefined && { environment }),
      streams: 'apart',
      risks: [],
      timeoutMs,
      network: false,
    })
  }

  async read(caller: Caller, path: string, key: string): Promise<string> {
    const operation = { category: 'read', operation: 'read-file', targetPath: path } as const
    return this.#start(caller, key, path, {
      ...operation,
      risks: [],
      timeoutMs: 60_000,
      network: false,
    })
  }

  async #start(caller: Caller, key: string, body: unknown, operation: Operation): Promise<string> {
    guardSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    const { keyId, owner } = caller
    const folder = this.#policy.place().layout?.workspace
    if (folder === undefined || this.#policy.terms() === null)
      throw new AppError('wrong_state', 'Cannot evaluate: this is no attempt with a sandbox')
    const isCommand = operation.operation === 'run'
    return this.#kernel.commit((sql, now) =>
      onceByKey(sql, now, { scope: 'eval', key, body }, () => {
        guardOpenSession(guardSession(this.#kernel, caller))
        return this.#operations.start(
          sql,
          now,
          { kind: 'key', id: keyId, owner },
          {
            runId: this.#evaluating(sql, now),
            operation: this.#kernel.redact(operation),
            ...(isCommand && { step: { folder, grant: null, checkpoint: false } }),
          },
        )
      }),
    )
  }

  /** The run of all that is found out about the attempt: that of its turn has ended. */
  #evaluating(sql: Sql, now: number): string {
    const { id } = this.#kernel.session()
    return onceByKey(sql, now, { scope: 'eval', key: 'run', body: null }, () => {
      const runId = ownedId('run', id, this.#kernel.ports.crypto.random(8))
      insertRun(sql, now, runId, {
        intent: 'Evaluate the attempt',
        workflow: evalWorkflow,
        implicit: false,
      })
      return runId
    })
  }
}

/** At most so many, of each tool before more of any: often the one would not hide once the other. */
function refusals(sql: Sql, kind: string, where: string): { tool: string; reason: string }[] {
  return sql.all(
    `with found as (
       select seq, data ->> '$.tool' as tool, coalesce(data ->> '$.reason', 'The gate had not allowed it') as reason,
         row_number() over (partition by data ->> '$.tool' order by seq) as nth
       from events where kind = ? and ${where}),
     first as (select * from found order by nth, seq limit 200)
     select tool, reason from first order by seq`,
    kind,
  )
}
