import type { ApprovalResolve } from '../../src/contract/approval.ts'
import { type EventKind } from '../../src/contract/events.ts'
import {
  Enforcement,
  type ExecutionReport,
  Operation,
  type OperationRecord,
} from '../../src/contract/operation.ts'
import { PolicyDocument, type Policy } from '../../src/contract/policy.ts'
import { RunCreate, type RunEnd } from '../../src/contract/run.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { Turn } from '../../src/contract/turn.ts'
import type { GatewayTool } from '../../src/core/session/calls/tools/tool.ts'
import type { Caller } from '../../src/core/session/record/caller.ts'
import { agentEvent, approvalOf, question } from './agent.ts'
import { testCaller, TestSession, testSessionId } from './session.ts'
import { testTools } from './tools.ts'

/** A person with a key of their own. */
export const person = (letter: string, owner = `owner ${letter}`): Caller => ({
  ...testCaller,
  keyId: `key_${letter.repeat(20)}`,
  memberId: `mbr_${owner
    .replaceAll(/[^0-9a-z]/g, '')
    .padEnd(20, '0')
    .slice(0, 20)}`,
  owner,
})
export const other = person('2')

/** What the defaults for operations make of them. */
export const operations = {
  allow: { category: 'read', operation: 'read-file', targetPath: 'a.txt' },
  ask: { category: 'shell', operation: 'run', command: 'npm test' },
  deny: { category: 'read', operation: 'read-file', targetPath: '/etc/passwd' },
} as const

export const report = (change: Partial<ExecutionReport> = {}): ExecutionReport => ({
  status: 'succeeded',
  output: 'out',
  truncated: false,
  exitCode: 0,
  error: null,
  durationMs: 5,
  branch: null,
  files: [],
  enforced: [],
  ...change,
})

export const policyOf = (document: Record<string, unknown>): Policy => ({
  ...PolicyDocument.parse({ name: 'p', ...document }),
  version: 1,
})

/** A session with an agent that only tests speak for. */
export class RunWorld extends TestSession {
  #agentSeq = 0
  #asks = 0
  generation = 1
  readonly sessionId: string

  constructor(tools: readonly GatewayTool[] = testTools, sessionId: string = testSessionId) {
    super(tools)
    this.sessionId = sessionId
  }

  /** With a sandbox that is ready, and can hold a process to everything. */
  async begin(input: Record<string, unknown> = {}, policy: Policy | null = null): Promise<this> {
    await this.actor.api.self.create({
      sessionId: this.sessionId,
      ...testCaller,
      input: SessionCreate.parse({ sandbox: 'local', ...input }),
      policy,
    })
    await this.pass(0)
    await this.meet()
    return this
  }

  /** The agent connects and says what it can do. */
  async meet(): Promise<void> {
    await this.connect({ generation: this.generation })
    await this.receive(
      { t: 'ready', bootMs: 1, enforces: [...Enforcement.options] },
      this.generation,
    )
  }

  /** The next sandbox, ready. */
  async meetNext(): Promise<void> {
    await this.pass(0)
    this.generation += 1
    this.#agentSeq = 0
    await this.meet()
  }

  prompt(text = 'go', more: { runId?: string; steer?: boolean; key?: string } = {}): Promise<Turn> {
    const { runId, steer = false, key = null } = more
    const input = { text, steer, ...(runId === undefined ? {} : { runId: runId as never }) }
    return this.actor.api.turns.prompt(testCaller, input, key)
  }

  /** The agent has handed the prompt to OpenCode. */
  takePrompt({ id }: { id: string }, more: { beats?: boolean } = {}) {
    const data = { sent: true, ...more }
    return this.receive({ t: 'result', commandId: id, ok: true, data }, this.generation)
  }

  emit(...events: (readonly [Parameters<typeof agentEvent>[1], Record<string, unknown>])[]) {
    const items = events.map(([kind, data]) => agentEvent(++this.#agentSeq, kind, data))
    return this.receive({ t: 'events', items }, this.generation)
  }

  endTurn(turn: { id: string }, state = 'completed', reason: string | null = null) {
    return this.emit(['turn.ended', { turnId: turn.id, state, reason, text: null, diff: null }])
  }

  step(turn: { id: string } | null, tokens: Partial<Record<string, number>>) {
    const none = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
    const part = { sessionId: 's', messageId: 'm', partId: 'p', reason: 'stop', cost: 0 }
    return this.emit([
      'step.finished',
      { ...part, turnId: turn?.id ?? null, tokens: { ...none, ...tokens } },
    ])
  }

  /** The question's id. */
  async ask(tool = 'bash', input?: unknown, change: Record<string, unknown> = {}): Promise<string> {
    const id = `ask_${String(++this.#asks).padStart(20, '0')}`
    await this.askAs(id, tool, input, change)
    return id
  }

  askAs(id: string, tool = 'bash', input?: unknown, change: Record<string, unknown> = {}) {
    return this.receive({ ...question(id, tool, input), ...change }, this.generation)
  }

  /** What the agent was told about a question on this link. */
  answerTo = (askId: string): 'allow' | 'deny' | null => {
    const answer = this.sent.findLast((sent) => sent.t === 'answer' && sent.askId === askId)
    return answer?.t === 'answer' ? answer.decision : null
  }

  approvalId = (askId: string): string => approvalOf(this.sessionId, askId)

  resolve(
    approvalId: string,
    resolution: ApprovalResolve['resolution'] = 'approved',
    by: Caller = other,
    more: Partial<ApprovalResolve> = {},
  ) {
    return this.actor.api.approvals.resolve(by, approvalId, { resolution, reason: '', ...more })
  }

  approval(id: string) {
    return this.actor.api.approvals.get(testCaller, id)
  }

  createRun(intent = 'do it', key: string | null = null) {
    return this.actor.api.runs.create(testCaller, RunCreate.parse({ intent }), key)
  }

  async run(id: string) {
    return (await this.actor.api.runs.get(testCaller, id)).run
  }

  record(id: string) {
    return this.actor.api.runs.get(testCaller, id)
  }

  finish(id: string, status: RunEnd = 'completed', reason = '') {
    return this.actor.api.runs.finish(testCaller, id, { status, reason })
  }

  /** The whole timeline. */
  async timeline(id: string) {
    return (await this.actor.api.runs.events(testCaller, id, { limit: 200, after: null })).items
  }

  async kinds(id: string) {
    return (await this.timeline(id)).map(({ kind }) => kind)
  }

  async entries(id: string, kind: string) {
    return (await this.timeline(id)).filter((entry) => entry.kind === kind).map(({ data }) => data)
  }

  verify(id: string) {
    return this.actor.api.runs.verify(testCaller, id)
  }

  execute(
    runId: string,
    operation: Record<string, unknown> = operations.allow,
    more: { evaluateOnly?: boolean; idempotencyKey?: string | null; by?: Caller } = {},
  ): Promise<OperationRecord> {
    const { evaluateOnly = false, idempotencyKey = null, by = testCaller } = more
    const parsed = Operation.parse(operation)
    return this.actor.api.operations.execute(by, runId, parsed, { evaluateOnly, idempotencyKey })
  }

  operation(id: string) {
    return this.actor.api.operations.get(testCaller, id, 0)
  }

  resume(approvalId: string) {
    return this.actor.api.operations.resume(testCaller, approvalId)
  }

  /** What the sandbox was given to execute on its present link. */
  executes() {
    return this.commands().filter(({ kind }) => kind === 'execute')
  }

  result(attemptId: string, change: Partial<ExecutionReport> = {}, ok = true) {
    const data = ok ? { data: { ...report(change) } } : { error: 'no' }
    return this.receive({ t: 'result', commandId: attemptId, ok, ...data }, this.generation)
  }

  async events(kind: EventKind) {
    return (await this.actor.api.log.events(testCaller, 0, 500))
      .filter((event) => event.kind === kind)
      .map(({ data }) => data)
  }

  attemptId = (operation: OperationRecord): string => operation.attempts.at(-1)?.id ?? ''

  rowsOf<T extends object>(query: string): T[] {
    return this.sql.all<T>(`select * from ${query}`)
  }
}
