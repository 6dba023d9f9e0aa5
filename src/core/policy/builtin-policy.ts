import { stringify } from 'yaml'
import type {
  BuiltinName,
  Policy,
  PolicyBase,
  PolicyDocument,
  PolicyRule,
} from '../../contract/policy.ts'
import { contractTools, toolFileName } from '../../contract/tools.ts'

const empty = {
  version: 1,
  approvals: { timeoutSeconds: 600 },
  groups: {},
  overrides: { agents: {}, subagents: {} },
}

/** OpenCode's own notes and agents: whatever a subagent does is asked for by itself. */
const bookkeepingTools = ['task', 'skill', 'todowrite', 'todoread', 'invalid']

/** The contract's names, and how OpenCode shows them to the model. */
const namesOfContractTools = contractTools.flatMap((tool) => [
  tool.name,
  toolFileName(tool),
  ...tool.aliases,
])

/** What the agent has started itself. By these names only: any other spelling may be somewhere else. */
const loopback = {
  host: ['localhost', '127.0.0.1', '::1', '0.0.0.0'],
  // Not ssh and its like: they would run commands that nobody has judged.
  command: ['curl *', 'wget *', 'http *', 'xh *'],
}

/** Risks ask, because none of these lists one. */
const everywhere: PolicyRule[] = [
  { id: 'workspace', match: { category: ['read', 'edit', 'shell', 'git'] }, decision: 'allow' },
  { id: 'loopback', match: { category: 'network', ...loopback }, decision: 'allow' },
  {
    id: 'bookkeeping',
    match: { category: 'provider-tool', tool: bookkeepingTools },
    decision: 'allow',
  },
  {
    id: 'contract-tools',
    match: { category: 'provider-tool', tool: [...new Set(namesOfContractTools)] },
    decision: 'allow',
  },
]

/** Behind walls a command that nobody understands can do no more than one that somebody does. */
const enclosed: PolicyRule = {
  id: 'enclosed',
  match: { category: ['shell', 'git'], risks: 'ambiguous', enclosure: 'full' },
  decision: 'allow',
  reason: 'It is unclear what the command does, and the enclosure holds it',
}

const allowed = 'Work inside the workspace and requests to the sandbox itself are allowed'
const denied = 'secrets and other folders are denied'

/** For sessions without a policy document. */
export const sandboxDefault: Policy = {
  ...empty,
  version: 2,
  name: 'sandbox-default',
  description: `${allowed}; what is destructive or privileged asks; what is unclear asks unless the sandbox is fully enclosed; ${denied}`,
  rules: [...everywhere, enclosed],
}

/** For whoever wants what is unclear to ask wherever a sandbox runs. */
export const strict: Policy = {
  ...empty,
  name: 'strict',
  description: `${allowed}; what is destructive, privileged or unclear asks in every sandbox; ${denied}`,
  rules: everywhere,
}

/** Versions of before, for documents that were stored upon them. */
const formerPolicies: readonly Policy[] = [
  { ...sandboxDefault, version: 1, description: strict.description, rules: everywhere },
]

/** For operations of the API: the defaults of the categories alone. */
export const operationDefault: Policy = {
  ...empty,
  name: 'operation-default',
  description:
    'For operations of the API: reading the workspace is allowed; secrets and other folders are denied; everything else asks',
  rules: [],
}

const builtinPolicies: readonly Policy[] = [sandboxDefault, strict, operationDefault]

/** Names that no document may take. */
export const reservedPolicyNames: readonly string[] = builtinPolicies.map(({ name }) => name)

const idOf = ({ name, version }: Policy): string => `${name}@${version}`

/** The version of today: what a document extends does not change under it. */
export function builtinPolicy(base: PolicyBase = 'sandbox-default'): string | undefined {
  const found = builtinPolicies.find(({ name }) => name === base)
  return found && idOf(found)
}

/** A version that this release does not know has none, so the defaults of the categories count. */
export const builtinRules = (builtin: string | undefined): readonly PolicyRule[] =>
  [...builtinPolicies, ...formerPolicies].find((policy) => idOf(policy) === builtin)?.rules ?? []

/** A document under its number, on top of the built-in one that it extends. */
export function policyFromBuiltin(document: PolicyDocument, version: number): Policy {
  const { extends: base, ...own } = document
  const builtin = builtinPolicy(base)
  return { ...own, version, ...(builtin === undefined ? {} : { builtin }) }
}

/**
 * What decides in a session with this document, or with none. Operations of the API keep the defaults of the categories
 * under it, so that no document loosens them by what it does not say.
 */
export function policyOrBuiltin(policy: Policy | null, asked: 'gate' | 'operation'): Policy {
  if (asked === 'gate') return policy ?? sandboxDefault
  if (policy === null) return operationDefault
  const { builtin: _, ...own } = policy
  return own
}

/** The built-in policy as a document that means the same under another name. */
export function builtinPolicyYaml(name: BuiltinName): string {
  const found = builtinPolicies.find((policy) => policy.name === name)
  if (!found) throw new Error(`There is no built-in policy "${name}"`)
  const { version, description, rules } = found
  const head = `# Built in, version ${version}. A document of yours extends it, or is a copy of it under another name.\n`
  return head + stringify({ name, description, extends: 'none', rules })
}
