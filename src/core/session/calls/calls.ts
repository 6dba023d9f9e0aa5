import type { Answer } from '../../../contract/ask.ts'
import type { CompletionDecision, IncomingCompletion } from './tools/completion.ts'
import type { Sql } from '../../ports.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import type { ToolCall } from '../../../contract/tool.ts'
import type { Caller, Listed, Page } from '../record/caller.ts'
import { pinsOf } from '../pins/pins.ts'
import { guardSession } from '../record/guards.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import { isByteLengthOver } from '../../../contract/byte-length.ts'
import { AppError, errorCodeOf, errorTable } from '../../../contract/error.ts'
import { maxArgsBytes, type ToolResult } from '../../../contract/tool.ts'
import { toolRefusal } from '../../../contract/tools.ts'
import {
  abandonFencedCalls,
  beginCall,
  failCall,
  releaseCall,
  settleCall,
  listCalls,
  pendingCallsBefore,
} from './rows.ts'
import type { CallContext, GatewayTool, ModelAbilities } from './tools/tool.ts'
import type { LogFields, LogLevel } from '../../ports.ts'

import type { SandboxCaller } from '../record/caller.ts'
import { storeArtifacts } from '../artifacts/rows.ts'
import {
  type CallAnswer,
  fittingAnswer,
  invalidArgumentsAnswer,
  conflictAnswer,
  type ToolCallInput,
  withoutUnfit,
} from './answers.ts'
import { Gathering } from './gathering.ts'
import { KeptAnswers } from './kept-answers.ts'
import type { Commands } from '../commands/commands.ts'
import { guardSandboxSession } from '../record/guards.ts'
import { envFilePath } from '../env/requests.ts'
import type { SessionKernel } from '../record/kernel.ts'
import type { SessionRecord } from '../record/record.ts'
import { orderSnapshot, storeSnapshot } from '../snapshots/rows.ts'

const slowMs = 10_000

interface Running {
  tool: GatewayTool
  toolCallId: string
  operationId: string
  session: SessionRecord
  startedAt: number
  requestId: string | undefined
  run: () => ToolResult | Promise<ToolResult>
}

/** The automation's run, which a call may complete. */
interface AutomationRuns {
  complete(
    sql: Sql,
    now: number,
    sessionId: string,
    incoming: IncomingCompletion,
  ): { decision: CompletionDecision; answers: Answer[] }
  decide(sql: Sql, sessionId: string, incoming: IncomingCompletion): CompletionDecision
}

/** For one call of the sandbox of this generation. */
type AbilitiesOfCall = (operationId: string, generation: number) => ModelAbilities

export interface CallsApi {
  list(caller: Caller, page: Page): Promise<Listed<ToolCall>>
  /** The sandbox's: refuses an old generation and another organisation. */
  call(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer>
}

/**
 * The hot path: a gateway tool call is executed once, whoever asks and how often. Its row is pending before its tool
 * runs, and its answer is stored before anybody gets it. A call whose runner is gone runs again only if its tool may be
 * repeated.
 */
export class Calls implements RoomOf<CallsApi> {
  readonly api: CallsApi = this
  readonly #kernel: SessionKernel
  readonly #commands: Commands
  readonly #tools: readonly GatewayTool[]
  readonly #automation: AutomationRuns
  readonly #abilities: AbilitiesOfCall
  readonly #gathering: Gathering
  readonly #running = new Map<string, Promise<string>>()
  readonly #answers = new KeptAnswers()

  constructor(
    kernel: SessionKernel,
    commands: Commands,
    tools: readonly GatewayTool[],
    automation: AutomationRuns,
    abilities: AbilitiesOfCall,
  ) {
    this.#abilities = abilities
    this.#kernel = kernel
    this.#commands = commands
    this.#tools = tools
    this.#automation = automation
    this.#gathering = new Gathering(kernel.ports.host.gather)
  }

  /** What it knows beside the database, when that is erased. */
  readonly forget = (): void => this.#answers.forget()

  async list(caller: Caller, page: Page): Promise<Listed<ToolCall>> {
    guardSession(this.#kernel, caller)
    return listCalls(this.#kernel.ports.sql, page)
  }

  async call(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer> {
    // A replaced sandbox is refused before anything is said of its request.
    guardSandboxSession(this.#kernel, sandbox)
    const tool = this.#tools.find((item) => item.definition.name === call.tool)
    if (!tool) throw new AppError('unknown_tool', `Unknown tool: ${call.tool}`)
    const parsed = tool.definition.args.safeParse(call.args)
    // An id that the agent chose must stay free for the corrected call.
    if (!parsed.success && tool.definition.callIdFrom)
      return { body: JSON.stringify(invalidArgumentsAnswer(parsed.error)), replayed: false }
    const args: unknown = parsed.success ? parsed.data : call.args
    const sent = canonicalJson(args)
    if (isByteLengthOver(sent, maxArgsBytes)) {
      throw new AppError('too_large', `The arguments are larger than ${maxArgsBytes} bytes`, [
        { path: 'args', message: `At most ${maxArgsBytes} bytes` },
      ])
    }
    const answer = this.#answers.find(call, sent)
    if (answer !== undefined) return { body: answer, replayed: true }
    const waiting = this.#others()
    if (waiting) await waiting
    // After the wait: the session may have been closed or replaced meanwhile.
    const session = guardSandboxSession(this.#kernel, sandbox)
    const kept = this.#kernel.hide(parsed.success ? args : withoutUnfit(args, parsed.error))
    const key = `${call.tool}\n${call.toolCallId}`
    const begin = this.#kernel.commit((sql, now) =>
      beginCall(sql, now, {
        tool: call.tool,
        toolCallId: call.toolCallId,
        operationId: `op_${this.#kernel.ports.crypto.random(20)}`,
        sent,
        args: kept === args ? sent : canonicalJson(kept),
        generation: sandbox.generation,
        runner: this.#kernel.instance,
        running: this.#running.has(key),
        repeatable: tool.repeatable,
        sessionOpen: session.status === 'open',
      }),
    )
    switch (begin.kind) {
      case 'replay':
        if (kept === args) this.#answers.keep(call, sent, begin.body)
        return { body: begin.body, replayed: true }
      case 'join':
        return { body: (await this.#running.get(key)) ?? '', replayed: true }
      case 'closed':
        return this.#late(tool, parsed.success ? parsed.data : null, session)
      case 'conflict':
        return conflictAnswer(tool, call)
      case 'run':
        break
    }
    const context = this.#context(session, begin.operationId)
    const work = this.#run({
      tool,
      toolCallId: call.toolCallId,
      operationId: begin.operationId,
      session,
      startedAt: this.#kernel.ports.now(),
      requestId: sandbox.requestId,
      run: () => {
        if (!parsed.success) return invalidArgumentsAnswer(parsed.error)
        const refusal = toolRefusal(tool.definition, session)
        return refusal
          ? { success: false, result: refusal }
          : tool.run(this.#kernel.hide(parsed.data), context)
      },
    })
      .catch((error: unknown) => this.#refused(error))
      // Unless it runs again already.
      .finally(() => this.#running.get(key) === work && this.#running.delete(key))
    this.#running.set(key, work)
    const body = await work
    // A secret that was sent stays nowhere.
    if (kept === args) this.#answers.keep(call, sent, body)
    return { body, replayed: false }
  }

  /** Until the calls that came with it are here, and the secrets are open. Undefined if there is nothing to wait for. */
  #others(): Promise<void> | undefined {
    const gathered = this.#gathering.join()
    return gathered?.then(() => this.#kernel.openSecrets()) ?? this.#kernel.openSecrets()
  }

  readonly written = (tables: Written): void => {
    if (tables.has('session')) this.#dropFenced()
  }

  /** Of replaced sandboxes, except what runs here, or may come again under an id that the agent has chosen. */
  #dropFenced(): void {
    if (!this.#kernel.created) return
    const { generation } = this.#kernel.session()
    const lost = pendingCallsBefore(this.#kernel.ports.sql, generation).filter(
      ({ tool, tool_call_id }) =>
        !this.#running.has(`${tool}\n${tool_call_id}`) && !this.#mayComeAgain(tool),
    )
    if (lost.length > 0) this.#kernel.commit((sql, now) => abandonFencedCalls(sql, now, lost))
  }

  #mayComeAgain(name: string): boolean {
    const tool = this.#tools.find(({ definition }) => definition.name === name)
    return tool?.definition.callIdFrom !== undefined
  }

  /** A new id after the close: refused, unless the tool has something to say that changes nothing. */
  #late(tool: GatewayTool, args: unknown, session: SessionRecord): CallAnswer {
    const { sql } = this.#kernel.ports
    const answer =
      args !== null &&
      tool.late?.(this.#kernel.hide(args), {
        sessionId: session.id,
        decideRun: (incoming) => this.#automation.decide(sql, session.id, incoming),
      })
    if (answer) return { body: JSON.stringify(answer), replayed: false }
    const { name } = tool.definition
    throw new AppError('session_closed', `Cannot run "${name}": session is closed`)
  }

  async #run(call: Running): Promise<string> {
    const key = {
      tool: call.tool.definition.name,
      toolCallId: call.toolCallId,
      runner: this.#kernel.instance,
    }
    const crashed = this.#kernel.crash('call.begun')
    if (crashed) await crashed
    const result = await this.#outcome(call, key)
    const ran = this.#kernel.crash('call.ran')
    if (ran) await ran
    // A secret may have been given while it ran.
    const opening = this.#kernel.openSecrets()
    if (opening) await opening
    const body = this.#kernel.commit((sql, now) =>
      settleCall(sql, now, key, this.#kernel.hide(result)),
    )
    const settled = this.#kernel.crash('call.settled')
    if (settled) await settled
    const durationMs = this.#kernel.ports.now() - call.startedAt
    // Each call is an event and a row of the ledger; an operator looks for those that failed or were slow.
    const level = !result.success || durationMs > slowMs ? 'info' : 'debug'
    this.#log(level, 'Tool call settled', call, { success: result.success, durationMs })
    return body
  }

  #log(level: LogLevel, message: string, call: Running, fields: LogFields): void {
    const { tool, toolCallId, session, requestId } = call
    const about = { tool: tool.definition.name, toolCallId, sessionId: session.id }
    const request = requestId === undefined ? {} : { requestId }
    this.#kernel.ports.log(level, message, { ...about, ...request, ...fields })
  }

  async #refused(error: unknown): Promise<never> {
    await this.#kernel.crash('call.failed')
    throw error
  }

  #outcome(
    call: Running,
    key: { tool: string; toolCallId: string },
  ): ToolResult | Promise<ToolResult> {
    try {
      const result = call.run()
      if (!(result instanceof Promise)) return fittingAnswer(result)
      return result.then(fittingAnswer).catch(async (error: unknown) => {
        await this.#kernel.openSecrets()
        return this.#failed(call, key, error)
      })
    } catch (error) {
      return this.#failed(call, key, error)
    }
  }

  #failed(call: Running, key: { tool: string; toolCallId: string }, error: unknown): ToolResult {
    const code = errorCodeOf(error)
    const isFenced = call.session.generation < this.#kernel.session().generation
    if (code && errorTable[code].retryable && (!isFenced || this.#mayComeAgain(key.tool))) {
      this.#kernel.commit((sql) => releaseCall(sql, key))
      const durationMs = this.#kernel.ports.now() - call.startedAt
      this.#log('info', 'Tool call put off', call, { code, durationMs })
      throw error
    }
    const message = this.#kernel.hide(error instanceof Error ? error.message : String(error))
    if (code) return { success: false, result: message }
    this.#kernel.commit((sql, now) => failCall(sql, now, key, message))
    const durationMs = this.#kernel.ports.now() - call.startedAt
    this.#log('error', 'Tool handler failed', call, { error: message, durationMs })
    throw new AppError('internal', `Tool "${key.tool}" failed unexpectedly`)
  }

  #context(session: SessionRecord, operationId: string): CallContext {
    const { ports } = this.#kernel
    return {
      sessionId: session.id,
      organisationId: session.organisationId,
      operationId,
      now: ports.now,
      db: () => ports.db(),
      blobs: () => ports.blobs(),
      // The generation is part of the id: a replacement starts afresh.
      command: (kind, body) =>
        this.#commands.ask(
          kind,
          `${operationId}_${kind}_${session.generation}`,
          body,
          session.generation,
        ),
      storeArtifacts: (files) =>
        this.#kernel.commit((sql, now) =>
          storeArtifacts(
            sql,
            now,
            operationId,
            files.map((file) => ({ ...file, id: `art_${ports.crypto.random(20)}` })),
          ),
        ),
      sha256: (text) => ports.crypto.sha256(text),
      skills: () => pinsOf(ports.sql, 'skill'),
      mode: session.mode,
      project: session.project,
      abilities: this.#abilities(operationId, session.generation),
      memory: { scopes: session.memoryScopes, memberId: session.memberId ?? '' },
      configurationId: session.configurationId,
      generation: session.generation,
      provider: () => ports.provider(session.provider, session.organisationId),
      generatedFiles: session.envFiles.map(envFilePath),
      knownSecrets: () => this.#kernel.knownSecrets(),
      orderSnapshot: (id) => this.#kernel.commit((sql) => orderSnapshot(sql, id, 'call')),
      storeSnapshot: (snapshot) =>
        this.#kernel.commit((sql, now) =>
          storeSnapshot(sql, now, {
            ...snapshot,
            generation: session.generation,
            configurationId: session.configurationId,
            provider: session.provider,
            operationId,
          }),
        ),
      completeRun: (incoming) =>
        this.#kernel.commit((sql, now) => {
          const { decision, answers } = this.#automation.complete(sql, now, session.id, incoming)
          this.#kernel.answer(answers)
          return decision
        }),
    }
  }
}
