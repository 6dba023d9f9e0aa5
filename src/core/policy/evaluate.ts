import type { Enclosure } from '../../contract/enclosure.ts'
import type {
  Category,
  Decision,
  PermissionDecision,
  PermissionOverrides,
  PermissionRequest,
  PhaseStates,
} from '../../contract/permission.ts'
import type { Policy } from '../../contract/policy.ts'
import type { GateRules } from '../../contract/session.ts'
import { type ActSegments, actSteps, type Step } from './acts.ts'
import { type Act, ruleApprovalTerms, type Rule, rulesOf } from './rules.ts'

/**
 * Decides one request under one policy. Pure: the same request, policy and enclosure give the same answer, so a recorded
 * request can be decided again later.
 *
 * 1. A request is taken apart: each simple command of a script, each path outside the workspace and the session's paths,
 *    each file of secrets is decided by itself, and the strictest answer is the answer.
 * 2. The last rule of the document that matches decides. Where none does, the category's default does: read allows;
 *    edit, shell, git, network, memory and provider-tool ask; secrets and external-directory deny.
 * 3. An allow, of a rule or a default, does not reach a request with a risk (destructive, external, privileged,
 *    ambiguous) unless the rule lists that risk: then a person is asked. A deny stays a deny.
 * 4. What is denied by default is opened only by a rule that names its category, and for external-directory a path too.
 * 5. An agent's override takes the place of a default: it turns ask into allow where there is no risk, and the deny of
 *    secrets into ask. It tightens every answer, loosens no rule, and never moves the boundary.
 * 6. A subagent's override, and then the session's gate lists, only tighten.
 */
export function evaluatePermission(
  request: PermissionRequest,
  policy: Policy,
  options: EvaluateOptions = {},
): PermissionDecision {
  let strictest: Verdict[] = []
  const awaited: PhaseStates = {}
  for (const step of actSteps(request, rulesOf(policy), options.segmentsOf)) {
    const verdict = decideStep(step, request, policy, { ...options, awaited })
    const [known] = strictest
    if (!known || isStricter(verdict.decision, known.decision)) strictest = [verdict]
    else if (verdict.decision === known.decision) strictest.push(verdict)
    if (verdict.decision === 'deny') break
  }
  const { decision, reason, rule } = tighten(
    together(strictest, policy),
    gateSays(policy, request.tool),
  )
  const { enclosure = 'none' } = options
  return {
    decision,
    reason,
    rule,
    policy: { name: policy.name, version: policy.version },
    enclosure,
    ...(Object.keys(awaited).length > 0 && { phases: awaited }),
  }
}

/** What one judge says of a request, before it is the decision. */
interface Verdict {
  decision: Decision
  reason: string
  rule: string
  /** Allowed although it has a risk: that is told. */
  risky?: true
}

const strictness: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 }

export const isStricter = (one: Decision, other: Decision): boolean =>
  strictness[one] > strictness[other]

const tighten = <V extends Verdict>(verdict: V, other: V | null): V =>
  other && isStricter(other.decision, verdict.decision) ? other : verdict

type Override = PermissionOverrides | null | undefined

export interface EvaluateOptions {
  /** What the registry says of the two agents; the document may say more. */
  overrides?: { agent?: Override; subagent?: Override } | null | undefined
  /** How far the kernel holds the sandbox. Absent: not at all. */
  enclosure?: Enclosure | undefined
  /** What is known of phases. A rule that waits for one that is not ready, or not here, denies. */
  phases?: PhaseStates | undefined
  /** Default: reads the command anew. */
  segmentsOf?: ActSegments | undefined
}

/** With the phases that rules have waited for, so that the decision can be made again. */
interface Deciding extends EvaluateOptions {
  awaited: PhaseStates
}

const nothingToDecide: Verdict = {
  decision: 'ask',
  reason: 'There is nothing to decide on',
  rule: 'default',
}

const maxReasons = 4

/** Whoever is asked learns everything that asks, and the rule that wants the most people is the one that counts. */
function together(verdicts: readonly Verdict[], policy: Policy): Verdict {
  const [first, ...others] = verdicts
  if (!first) return nothingToDecide
  if (first.decision === 'allow') return verdicts.find(({ risky }) => risky) ?? first
  if (first.decision !== 'ask' || others.length === 0) return first
  const demands = ({ rule }: Verdict) => {
    const { quorum, group } = ruleApprovalTerms(policy, rule)
    return quorum * 2 + (group ? 1 : 0)
  }
  const main = others.reduce((most, one) => (demands(one) > demands(most) ? one : most), first)
  const reasons = [...new Set(verdicts.map(({ reason }) => reason))]
  const more = reasons.length > maxReasons ? [`and ${reasons.length - maxReasons} more`] : []
  return { ...main, reason: [...reasons.slice(0, maxReasons), ...more].join('; ') }
}

const defaults: Record<Category, Decision> = {
  read: 'allow',
  edit: 'ask',
  shell: 'ask',
  git: 'ask',
  network: 'ask',
  memory: 'ask',
  'provider-tool': 'ask',
  secrets: 'deny',
  'external-directory': 'deny',
}

function decideStep(
  step: Step,
  request: PermissionRequest,
  policy: Policy,
  deciding: Deciding,
): Verdict {
  const { overrides, enclosure = 'none' } = deciding
  const act = { ...step, enclosure }
  const { rule, perhaps } = findRules(rulesOf(policy).list, act, request, deciding)
  const sure = rule ? byRule(rule, step) : byDefault(step)
  const ruled = perhaps.reduce((verdict, one) => tighten(verdict, byPerhaps(one, step)), sure)
  const { agents, subagents } = policy.overrides
  const own = [overrides?.agent, entry(agents, request.agent)]
  const asAgent = own.reduce<Verdict>(
    (verdict, override) =>
      byAgent(verdict, override ?? null, step, { ruled: rule !== undefined, agent: request.agent }),
    ruled,
  )
  const theirs = [overrides?.subagent, entry(subagents, request.subagent)]
  return theirs.reduce<Verdict>(
    (verdict, override) => tighten(verdict, said(override ?? null, step, request.subagent)),
    asAgent,
  )
}

interface Found {
  rule: Rule | undefined
  /** Rules behind it that ask or deny, and may be about this. */
  perhaps: { rule: Rule; decision: Decision }[]
}

/** The last one that matches, and what may match behind it: what is not known is not taken for something else. */
function findRules(
  list: readonly Rule[],
  act: Act,
  request: PermissionRequest,
  deciding: Deciding,
): Found {
  const perhaps: Found['perhaps'] = []
  for (let index = list.length - 1; index >= 0; index -= 1) {
    const rule = inPhase(list[index] as Rule, deciding.phases)
    if (applies(rule, act, request)) {
      remember(rule, deciding)
      return { rule, perhaps }
    }
    const may = rule.decision === 'allow' ? 'no' : rule.mayMatch(act, request)
    // Where no path is to be seen, a person may look.
    if (may === 'no') continue
    remember(rule, deciding)
    perhaps.push({ rule, decision: may === 'hidden' ? 'ask' : rule.decision })
  }
  return { rule: undefined, perhaps }
}

/** A rule that waits for a phase denies until the phase is ready; what is not known to be ready is not. */
function inPhase(rule: Rule, phases: PhaseStates | undefined): Rule {
  if (rule.awaits === null) return rule
  const { change, phase, topicKey } = rule.awaits
  const missing = phases && Object.hasOwn(phases, topicKey) ? phases[topicKey] : undefined
  if (missing?.length === 0) return rule
  const why =
    missing === undefined
      ? 'it is not known to be: the session looks when a turn begins'
      : `save ${missing.join(' and ')} first`
  const reason = `Phase ${phase} of change "${change}" is not ready: ${why}`
  return { ...rule, decision: 'deny', reason }
}

function remember({ awaits }: Rule, { phases, awaited }: Deciding): void {
  const known = awaits && phases?.[awaits.topicKey]
  if (known) awaited[awaits.topicKey] = known
}

const byPerhaps = ({ rule, decision }: Found['perhaps'][number], step: Step): Verdict => ({
  decision,
  reason: `It may be what a rule is about${rule.reason ? ` (${rule.reason})` : ''}: ${shown(step)}`,
  rule: rule.name,
})

const entry = <T>(record: Record<string, T>, key: string | null): T | null =>
  key !== null && Object.hasOwn(record, key) ? (record[key] ?? null) : null

/** Closed categories are opened only by a rule that means them; any rule may close them. */
function applies(rule: Rule, step: Act, request: PermissionRequest): boolean {
  if (!rule.matches(step, request)) return false
  if (defaults[step.category] !== 'deny' || rule.decision === 'deny') return true
  if (!rule.names?.has(step.category)) return false
  return step.category !== 'external-directory' || rule.hasPath
}

function byRule(rule: Rule, step: Step): Verdict {
  const uncovered = step.risks.filter((risk) => !rule.covers.has(risk))
  if (rule.decision === 'allow' && uncovered.length > 0)
    return { decision: 'ask', reason: riskReason(step, uncovered), rule: rule.name }
  // What was allowed although it is risky can be looked for afterwards.
  const risky = rule.decision === 'allow' && step.risks.length > 0
  const said = rule.reason ?? `${sentence[rule.decision]} by a rule: ${shown(step)}`
  return {
    decision: rule.decision,
    reason: risky ? `${said}: ${riskReason(step, step.risks)}` : said,
    rule: rule.name,
    ...(risky && { risky }),
  }
}

function byDefault(step: Step): Verdict {
  const { category } = step
  const decision = defaults[category]
  if (category === 'external-directory')
    return {
      decision,
      reason: `Outside the workspace: ${step.path ?? step.what}${within(step)}`,
      rule: 'boundary',
    }
  const rule = `default:${category}`
  if (decision !== 'deny' && step.risks.length > 0)
    return { decision: 'ask', reason: riskReason(step, step.risks), rule }
  const why = category === 'secrets' && step.why ? ` (${step.why})` : ''
  return {
    decision,
    reason: `${sentence[decision]} by default for ${category}: ${shown(step)}${why}`,
    rule,
  }
}

const sentence: Record<Decision, string> = {
  allow: 'Allowed',
  ask: 'A person is asked',
  deny: 'Denied',
}

const maxShown = 200
const cut = (text: string): string =>
  text.length > maxShown ? `${text.slice(0, maxShown)}…` : text
const shown = (step: Step): string =>
  step.path !== null && step.command === null ? step.path : cut(step.what)
const within = ({ command }: Step): string => (command === null ? '' : ` in "${cut(command)}"`)

const riskReason = (step: Step, risks: readonly string[]): string =>
  `${step.why ? `${step.why} ` : ''}(${risks.join(', ')}): ${shown(step)}`

/** What an override says of the category; null if nothing. */
function said(
  override: PermissionOverrides | null,
  { category }: Step,
  agent: string | null,
): Verdict | null {
  const decision = override?.[category]
  if (!decision) return null
  return {
    decision,
    reason: `${sentence[decision]} by the override of "${agent ?? 'the agent'}" for ${category}`,
    rule: `override:${agent ?? 'agent'}`,
  }
}

function byAgent(
  verdict: Verdict,
  override: PermissionOverrides | null,
  step: Step,
  { ruled, agent }: { ruled: boolean; agent: string | null },
): Verdict {
  const word = said(override, step, agent)
  if (!word || isStricter(word.decision, verdict.decision)) return word ?? verdict
  if (ruled || word.decision === verdict.decision || step.category === 'external-directory')
    return verdict
  if (step.category === 'secrets') return { ...word, decision: 'ask' }
  return step.risks.length === 0 ? word : verdict
}

/** The session's own lists, on top of its policy. They can only tighten. */
export const withGateRules = (policy: Policy, gate: GateRules): Policy => ({ ...policy, gate })

/** What the lists say of a tool; null if it is on neither. */
function gateSays({ gate }: Policy, tool: string | null): Verdict | null {
  if (!gate || tool === null) return null
  // The model sees "automation_complete" where the contract says "automation.complete".
  const has = (names: readonly string[]) =>
    names.some((name) => name === tool || name.replaceAll('.', '_') === tool)
  if (has(gate.deny))
    return {
      decision: 'deny',
      reason: `"${tool}" is on the session's deny list`,
      rule: 'gate:deny',
    }
  if (has(gate.ask))
    return { decision: 'ask', reason: `"${tool}" needs an answer from a person`, rule: 'gate:ask' }
  return null
}
