import type { Enclosure } from '../../contract/enclosure.ts'
import type { Category, Decision, PermissionRequest, Risk } from '../../contract/permission.ts'
import type {
  ApprovalTerms,
  PhaseCondition,
  Policy,
  PolicyMatch,
  PolicyRule,
  RuleApproval,
} from '../../contract/policy.ts'
import { topicKey } from '../../contract/phase.ts'
import { matchesPathGlob, mayMatchPathGlob, type PathGlob, pathGlob } from './matching/globs.ts'
import { unknownHost } from './matching/hosts.ts'
import { builtinRules } from './builtin-policy.ts'
import { matchesCommand, matchesText, type TextGlob, textGlob } from './matching/text-globs.ts'

/** The smallest thing that is decided: one command on one path or host. */
export interface Act {
  category: Category
  command: string | null
  path: string | null
  /** pattern: every path that fits it. any: it is not known which. Absent: this one. */
  pathKind?: 'pattern' | 'any'
  host: string | null
  risks: readonly Risk[]
  enclosure: Enclosure
}

/** The phase that a rule waits for. */
export interface AwaitedPhase extends PhaseCondition {
  topicKey: string
}

export interface Rule {
  /** NAME@VERSION#ID of the document that has it, or its place there if it has no id. */
  name: string
  /** While the phase that it waits for is ready, if it waits for one. */
  decision: Decision
  awaits: AwaitedPhase | null
  reason: string | undefined
  names: ReadonlySet<Category> | null
  hasPath: boolean
  /** Risks that an allow covers. */
  covers: ReadonlySet<Risk>
  matches: (act: Act, request: PermissionRequest) => boolean
  mayMatch: (act: Act, request: PermissionRequest) => Perhaps
}

/** Whether a rule is about something that only the run will show. hidden: not even that there is a path or a host. */
export type Perhaps = 'no' | 'named' | 'hidden'

export interface Rules {
  list: readonly Rule[]
  /** Whether paths and hosts have to be looked at one by one. */
  byPath: boolean
  byHost: boolean
}

const compiled = new WeakMap<readonly PolicyRule[], Map<string, Rules>>()

/**
 * Policies are data and do not change once they are loaded, so their patterns are read once; and again only if the same
 * list belongs to another version, or stands on something else.
 */
export function rulesOf(policy: Policy): Rules {
  const of = `${policy.name}@${policy.version} ${policy.builtin ?? ''}`
  const known = compiled.get(policy.rules) ?? new Map<string, Rules>()
  compiled.set(policy.rules, known)
  const rules = known.get(of) ?? compileAll(policy)
  known.set(of, rules)
  return rules
}

/** The last one that matches decides, so the document's own come after those that it extends. */
function compileAll(policy: Policy): Rules {
  const under = builtinRules(policy.builtin)
  const all = [...under, ...policy.rules]
  const own = policy.rules.map((rule, index) => compile(rule, ruleName(policy, rule, index)))
  return {
    list: [...under.map((rule, index) => compile(rule, builtinName(policy, rule, index))), ...own],
    byPath: all.some(({ match }) => match.path !== undefined),
    byHost: all.some(({ match }) => match.host !== undefined),
  }
}

const builtinName = ({ builtin }: Policy, rule: PolicyRule, index: number): string =>
  `${builtin}#${rule.id ?? index}`

const ruleName = (policy: Policy, rule: PolicyRule, index: number): string =>
  `${policy.name}@${policy.version}#${rule.id ?? index}`

const listOf = <T>(value: T | T[] | undefined): T[] | null =>
  value === undefined ? null : Array.isArray(value) ? value : [value]

function compile({ match, decision, reason, sdd }: PolicyRule, name: string): Rule {
  const names = listOf(match.category)
  const risks = new Set(listOf(match.risks) ?? [])
  const tests = testsOf(match)
  const { path, host, ...rest } = match
  const others = testsOf(rest)
  const globs = listOf(path)?.map(pathGlob) ?? null
  const hosts = listOf(host)?.map((glob) => textGlob(glob.toLowerCase())) ?? null
  return {
    name,
    decision,
    awaits: sdd ? { ...sdd, topicKey: topicKey(sdd.change, sdd.phase) } : null,
    reason,
    names: names && new Set(names),
    hasPath: match.path !== undefined,
    covers: risks,
    matches: (act, request) => tests.every((test) => test(act, request)),
    mayMatch: (act, request) => {
      if (!others.every((test) => test(act, request))) return 'no'
      const byPath = globs === null ? null : mayBePath(globs, act, request)
      const byHost = hosts === null ? null : mayBeHost(hosts, act, request)
      const both = [byPath, byHost].filter((each) => each !== null)
      if (both.length === 0 || both.includes('no')) return 'no'
      return both.includes('hidden') ? 'hidden' : 'named'
    },
  }
}

/** A command that nobody understands may be about any path and host. */
const hides = ({ risks }: Act, { command }: PermissionRequest): Perhaps =>
  command !== null && risks.includes('ambiguous') ? 'hidden' : 'no'

function mayBePath(globs: readonly PathGlob[], act: Act, request: PermissionRequest): Perhaps {
  const { path, pathKind } = act
  if (path === null) return hides(act, request)
  const may =
    pathKind === 'any' ||
    globs.some((glob) =>
      pathKind === 'pattern'
        ? mayMatchPathGlob(glob, path, request)
        : matchesPathGlob(glob, path, request),
    )
  return may ? 'named' : 'no'
}

function mayBeHost(hosts: readonly TextGlob[], act: Act, request: PermissionRequest): Perhaps {
  const { host } = act
  if (host === null) return hides(act, request)
  return host === unknownHost || hosts.some((glob) => matchesText(glob, host)) ? 'named' : 'no'
}

type Test = (act: Act, request: PermissionRequest) => boolean

/** One test per field that the rule has; a list matches if one of it does. */
function testsOf(match: PolicyMatch): Test[] {
  const test = <T>(value: T | T[] | undefined, make: (item: T) => Test): Test[] => {
    const each = listOf(value)?.map(make)
    return each ? [(act, request) => each.some((one) => one(act, request))] : []
  }
  return [
    ...test(match.category, (category) => (act) => act.category === category),
    ...test(match.risks, (risk) => (act) => act.risks.includes(risk)),
    ...test(match.enclosure, (enclosure) => (act) => act.enclosure === enclosure),
    ...test(match.mode, (mode) => (_, request) => request.mode === mode),
    ...test(match.agent, (agent) => (_, request) => request.agent === agent),
    ...test(match.subagent, (subagent) => (_, request) => request.subagent === subagent),
    ...test(match.tool, (tool) => {
      const glob = textGlob(tool)
      return (_, request) => request.tool !== null && matchesText(glob, request.tool)
    }),
    ...test(match.path, (path) => {
      const glob = pathGlob(path)
      return (act, request) =>
        act.path !== null && act.pathKind === undefined && matchesPathGlob(glob, act.path, request)
    }),
    ...test(match.command, (command) => {
      const glob = textGlob(command)
      return (act) => act.command !== null && matchesCommand(glob, act.command)
    }),
    ...test(match.host, (host) => {
      const glob = textGlob(host.toLowerCase())
      return (act) => act.host !== null && matchesText(glob, act.host)
    }),
  ]
}

/** Who must answer what the rule asked for, and until when: the rule's own terms, then the policy's. */
export function ruleApprovalTerms(policy: Policy, rule: string): ApprovalTerms {
  const own = termsOf(policy, rule)
  const { approvals } = policy
  const group = own.group ?? approvals.group
  const escalate = own.escalate ?? approvals.escalate
  return {
    timeoutSeconds: own.timeoutSeconds ?? approvals.timeoutSeconds,
    group: group === undefined ? null : keysOf(policy, group),
    quorum: own.quorum ?? approvals.quorum ?? 1,
    escalate: escalate
      ? { afterSeconds: escalate.afterSeconds, group: keysOf(policy, escalate.group) }
      : null,
  }
}

/** Nobody is in a group that is not there, so nobody can answer: the deadline rejects. */
const keysOf = ({ groups }: Policy, name: string): string[] =>
  Object.hasOwn(groups, name) ? [...(groups[name] ?? [])] : []

function termsOf(policy: Policy, rule: string): RuleApproval {
  if (rule === 'gate:ask' && policy.gate) return { timeoutSeconds: policy.gate.askTimeoutSeconds }
  const found = policy.rules.find((one, index) => ruleName(policy, one, index) === rule)
  return found?.approval ?? {}
}
