import type { Enclosure } from '../../../contract/enclosure.ts'
import { egressTool, permissionTool } from '../../../contract/ask.ts'
import type { PermissionRequest, PhaseStates } from '../../../contract/permission.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import type { Policy } from '../../../contract/policy.ts'
import { toolFileName } from '../../../contract/tools.ts'
import { keepActSegments } from '../../policy/acts.ts'
import { ruleApprovalTerms } from '../../policy/rules.ts'
import { hostOf } from '../../policy/matching/hosts.ts'
import { withGateRules } from '../../policy/evaluate.ts'
import {
  type OwnTool,
  type RequestContext,
  requestOfTool,
  searchTools,
} from '../../policy/permission-request.ts'
import { policyOrBuiltin } from '../../policy/builtin-policy.ts'
import type { Sql } from '../../ports.ts'
import { enforcementRefusal } from '../../abilities/enforcement.ts'
import { type ActiveAbility, activeExecutionStep } from '../executions/active.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'
import { type Headroom, spendingHeadroom } from '../budget/spending.ts'
import { pinnedAgents, type PinnedAgents } from '../pins/agents.ts'
import { gateAgentRefusal, agentOverrides } from './agents.ts'
import { type AskingTurn, judgeQuestion } from './judges.ts'
import type { RunRow } from '../runs/rows.ts'
import { hasEnded } from '../runs/transitions.ts'
import { questionHash, type Question, type Verdict } from './questions.ts'
import { type AttemptTerms, loadAttemptTerms } from '../record/attempt-terms.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { knownPhaseStates } from './known-phases.ts'
import { loadPolicyEnclosure, loadPolicyPlace, loadPolicyRow, type Place } from './policy-row.ts'

/**
 * What this session may do: its policy, its own gate lists, its pinned agents, and where it is. The gate, operations and the
 * proxy ask it for every tool, so all is kept at hand; what was written to one of its tables is read anew.
 */
export class SessionPolicy {
  readonly #kernel: SessionKernel
  #policy: Policy | null | undefined
  #place: Place | undefined
  #agents: PinnedAgents | null | undefined
  #changes: ReadonlySet<string> | undefined
  #phases: PhaseStates | undefined
  #terms: AttemptTerms | null | undefined
  #enclosure: { generation: number; level: Enclosure } | undefined
  #contractTools: readonly string[] | undefined
  readonly #segmentsOf = keepActSegments()
  /** In this state of executions no ability was at work. */
  #idleState = -1
  #turn: AskingTurn | null = null
  #turnState = -1

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** Something of it was saved. */
  readonly changed = (): void => {
    this.#policy = undefined
    this.#place = undefined
    this.#changes = undefined
    this.#phases = undefined
    this.#terms = undefined
    this.#enclosure = undefined
  }

  /** The document that counts, if there is one. */
  document(): Policy | null {
    if (this.#policy === undefined) this.#policy = loadPolicyRow(this.#kernel.ports.sql)
    return this.#policy
  }

  /** What decides about questions, with the session's own lists, or about operations of the API. */
  effective(asked: 'gate' | 'operation'): Policy {
    const policy = policyOrBuiltin(this.document(), asked)
    return asked === 'gate' ? withGateRules(policy, this.#kernel.session().gate) : policy
  }

  /** The turn that runs, if there is one. */
  askingTurn(): AskingTurn | null {
    const { turnsState, ports } = this.#kernel
    if (this.#turnState !== turnsState) {
      this.#turn = loadAskingTurn(ports.sql)
      this.#turnState = turnsState
    }
    return this.#turn
  }

  /** Where nothing can run the policy is not asked; a remembered approval spares its question. */
  decideQuestion(
    sql: Sql,
    now: number,
    arrivedAt: number,
    sent: Question,
    turn: AskingTurn | null,
    headroom = spendingHeadroom(sql, now),
  ): Verdict {
    const question = this.#askedBy(sent, turn)
    const session = this.#kernel.session()
    const policy = this.effective('gate')
    const request = this.#requestOf(question)
    const agents = this.agents()
    const ability = this.#activeAbility(sql)
    const overrides = agentOverrides(agents, question.subagent ?? stepAgent(ability, turn, agents))
    const asked = { tool: question.tool, turnId: turn?.id ?? null }
    const { by, grant, ...decision } = judgeQuestion({
      ...{ sql, now, turn, request, policy, misnamed: question.misnamed === true },
      ...{
        enclosure: this.enclosure(),
        refusedAgent: gateAgentRefusal(agents, question),
        overrides,
      },
      phases: this.phases(),
      segmentsOf: this.#segmentsOf,
      refusedByAbility: enforcementRefusal(ability, asked),
      permissions: this.terms()?.permissions ?? null,
      asksItself: question.tool === permissionTool,
      connectsTo:
        question.tool === egressTool ? placeAsked(request.hosts[0], question.input) : null,
      repository: repositoryPlace(session.repositoryUrl),
      operationHash: () => questionHash(question),
    })
    const record = policyRecord({
      by,
      grant,
      request,
      overrides,
      gate: session.gate,
      ...decision,
      latencyMs: now - arrivedAt,
      askId: question.askId,
      operationId: null,
    })
    const spent = turn && decision.decision !== 'deny' ? whyNothingRuns(headroom) : null
    const terms = ruleApprovalTerms(policy, decision.rule)
    // Nothing waits in an attempt of an eval run.
    if (spent !== null && this.terms() !== null)
      return { record: { ...record, decision: 'deny', reason: spent }, terms, spent: null }
    return { record, terms, spent }
  }

  /** Mostly there is none. */
  #activeAbility(sql: Sql): ActiveAbility | null {
    const { executionsState } = this.#kernel
    if (this.#idleState === executionsState) return null
    const ability = activeExecutionStep(sql)
    if (ability === null) this.#idleState = executionsState
    return ability
  }

  /** A turn that a subagent does by itself is held to what the subagent may. */
  #askedBy(question: Question, turn: AskingTurn | null): Question {
    const own = this.agents()?.subagents.find(({ name }) => name === turn?.agent)
    return own && question.subagent === undefined ? { ...question, subagent: own.name } : question
  }

  /** What an input does not show in full cannot be read; where its paths really lead counts as well. */
  #requestOf(question: Question): PermissionRequest {
    const { tool, input, subagent = null } = question
    const agent = this.agents()?.agent.name ?? question.agent ?? null
    this.#contractTools ??= this.#kernel.ports.tools
      .filter(({ definition }) => definition.needs === undefined)
      .map(({ definition }) => toolFileName(definition))
    const context = this.context(agent, subagent)
    const request = requestOfTool({
      ...{ tool, input, contractTools: this.#contractTools, ownTools: this.#ownTools() },
      ...context,
    })
    const real = (question.realPaths ?? [])
      .flatMap((path) => (searchTools.has(tool) ? [path, `${path}/**`] : [path]))
      .filter((path) => !request.paths.includes(path))
    const unreadable = question.shortened && !request.risks.includes('ambiguous')
    return {
      ...request,
      paths: [...request.paths, ...real],
      risks: unreadable ? [...request.risks, 'ambiguous'] : request.risks,
    }
  }

  /** Where the session lacks one, a tool of that name is somebody else's. */
  #ownTools(): OwnTool[] {
    const { equipment } = this.#kernel.session()
    if (equipment.length === 0) return []
    return this.#kernel.ports.tools.flatMap(({ definition }) => {
      const { needs, category = 'provider-tool' } = definition
      const isHere = needs !== undefined && equipment.includes(needs)
      return isHere ? [{ tool: toolFileName(definition), category }] : []
    })
  }

  /** The registered agents of the session, which never change; null: it was started without one. */
  agents(): PinnedAgents | null {
    if (this.#agents === undefined) this.#agents = pinnedAgents(this.#kernel.ports.sql)
    return this.#agents
  }

  /** Of an attempt of an eval run. */
  terms(): AttemptTerms | null {
    if (this.#terms === undefined) this.#terms = loadAttemptTerms(this.#kernel.ports.sql)
    return this.#terms
  }

  /** Where the session is, and who asks in it. */
  context(agent: string | null, subagent: string | null): RequestContext {
    const session = this.#kernel.session()
    const { layout } = this.place()
    const home = layout?.home ?? '/home/user'
    const envFile = layout?.envFile ?? '/tmp/.proliferate_env.json'
    return {
      agent,
      subagent,
      mode: session.mode,
      workspaceRoot: layout?.workspace ?? `${home}/workspace`,
      sessionPaths: [envFile, `${home}/.local/share/opencode/tool-output`],
      home,
      variables: { PROLIFERATE_ENV_FILE: envFile },
    }
  }

  /** What no sandbox of this generation has said is not claimed. */
  enclosure(): Enclosure {
    const { generation } = this.#kernel.session()
    if (this.#enclosure?.generation !== generation) {
      const level = loadPolicyEnclosure(this.#kernel.ports.sql, generation)?.level ?? 'none'
      this.#enclosure = { generation, level }
    }
    return this.#enclosure.level
  }

  /** Changes whose phases rules of the document wait for. */
  changesNamed(): ReadonlySet<string> {
    this.#changes ??= new Set(
      this.document()?.rules.flatMap(({ sdd }) => (sdd ? [sdd.change] : [])) ?? [],
    )
    return this.#changes
  }

  /** Of those changes, as far as the session has heard. */
  phases(): PhaseStates {
    this.#phases ??= this.changesNamed().size === 0 ? {} : knownPhaseStates(this.#kernel.ports.sql)
    return this.#phases
  }

  place(): Place {
    this.#place ??= loadPolicyPlace(this.#kernel.ports.sql)
    return this.#place
  }
}

/** Sessions older than runs may have a turn without one: nobody can be asked about it then. */
function loadAskingTurn(sql: Sql): AskingTurn | null {
  const turn = sql.all<{
    id: string
    runId: string
    agent: string | null
    aborting: number
    status: RunRow['status']
  }>(
    `select turns.id, run_id as runId, turns.agent, abort_requested as aborting, runs.status
     from turns join runs on runs.id = run_id where turns.state = 'running' limit 1`,
  )[0]
  if (!turn) return null
  const { id, runId, agent, aborting, status } = turn
  return { id, runId, agent, aborting: aborting === 1, runEnded: hasEnded(status) }
}

/** A subagent that works on a step by itself is held to its own definition. */
function stepAgent(
  ability: ActiveAbility | null,
  turn: AskingTurn | null,
  agents: PinnedAgents | null,
): string | undefined {
  const agent = ability?.steps.find((step) => turn !== null && step.turnId === turn.id)?.agent
  return agents?.subagents.find(({ name }) => name === agent)?.name
}

function whyNothingRuns({ reasons: [reason], isEnough }: Headroom): string | null {
  return reason ?? (isEnough ? null : "The session's part of the organisation's budget is used up")
}

/** Decided on as it was asked; kept without what looks like a key. */
export function policyRecord(record: PermissionRecord): PermissionRecord {
  const kept = hideSecretLike(record)
  return kept.request === record.request ? kept : { ...kept, hidden: true }
}

type Connection = { host: string; port: number } | null

/** The host as it was judged, and the port as it was asked. */
function placeAsked(host: string | undefined, input: unknown): Connection {
  const { port } = (input ?? {}) as { port?: unknown }
  return host === undefined ? null : { host, port: typeof port === 'number' ? port : 443 }
}

/** Port 443 stands for none: it is usual anyway. */
function repositoryPlace(url: string | null): Connection {
  const host = url === null ? null : hostOf(url)
  if (url === null || host === null) return null
  return {
    host,
    port: Number(/^[a-z+]{1,10}:\/\/[^/]{0,300}:(\d{1,5})(?:\/|$)/i.exec(url)?.[1] ?? 443),
  }
}
