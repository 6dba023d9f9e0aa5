import type { AbilityEnforcement, AbilityStep } from '../../contract/ability.ts'
import { egressTool } from '../../contract/ask.ts'

/**
 * What a running ability lets the agent do. It answers for one tool at a time and can only refuse: what passes here is
 * still decided by the policy. The gate asks it, for the agent and for whoever the agent has sent.
 */

export interface EnforcedAbility {
  ability: string
  level: AbilityEnforcement
  /** Such as 2/5. */
  progress: string
  /** Several where steps run together; none between two of them, and while a person is asked how to go on. */
  steps: readonly EnforcedStep[]
}

export interface EnforcedStep {
  id: string
  type: AbilityStep['type']
  /** The turn that works on it. Null: none does, or not yet. */
  turnId: string | null
  /** Of an agent step: of its agent's tools only these. Null: all of them. */
  tools: readonly string[] | null
}

export interface AskedTool {
  tool: string
  turnId: string | null
}

/** They change nothing, and a model that may not look cannot wait sensibly. */
const readingTools: ReadonlySet<string> = new Set([
  ...['read', 'glob', 'grep', 'list', 'todoread', 'lsp', 'lsp_hover', 'lsp_diagnostics'],
  ...['lsp_document_symbols', 'lsp_workspace_symbols', 'lsp_goto_definition'],
  ...['lsp_find_references', 'lsp_servers'],
  ...['ability_list', 'ability_status', 'ability_cancel', 'ability_agent', 'ability_validate'],
  // What OpenCode makes of a call that it could not understand: it only tells the model so.
  'invalid',
])

/** Beside these, nothing passes where destructive tools are blocked: what nobody knows may be one. */
const harmlessTools: ReadonlySet<string> = new Set([
  ...['todowrite', 'question', 'skill', 'webfetch', 'websearch', 'codesearch'],
  ...['memory_search', 'memory_get', 'verify', 'request_env_variables', 'automation_complete'],
])

/** Why the tool may not be used now; null: the ability has nothing against it. */
export function enforcementRefusal(
  active: EnforcedAbility | null,
  asked: AskedTool,
): string | null {
  if (active === null || active.level === 'loose') return null
  const tool = asked.tool.replaceAll('.', '_')
  if (readingTools.has(tool)) return null
  if (active.level === 'normal' && harmlessTools.has(tool)) return null
  const own = active.steps.find((step) => worksOn(step, asked))
  if (own === undefined) return `${describeEnforced(active)}: ${whatToDo(active)}`
  const { tools } = own
  if (tools === null || tools.includes(tool) || isWayOut(tool, tools)) return null
  return `${describeEnforced(active)}, which has only ${tools.join(', ') || 'no tools'}: ${whatToDo(active)}`
}

/** Only the turn of the step itself; one that still runs beside it has no part in it. */
const worksOn = ({ type, turnId }: EnforcedStep, asked: AskedTool): boolean =>
  (type === 'agent' || type === 'skill') && turnId !== null && turnId === asked.turnId

/** A connection is made by some tool, and the sandbox's proxy cannot say by which. */
const isWayOut = (tool: string, tools: readonly string[]): boolean =>
  tool === egressTool && tools.some((one) => one === 'bash' || one === 'webfetch')

/** For whoever is refused, and for every message while it runs. */
function describeEnforced({ ability, steps, progress }: EnforcedAbility): string {
  const named = steps.map(({ id, type }) => `"${id}" (${type})`).join(' and ')
  const place = steps.length === 0 ? 'between two steps' : `at step ${named}`
  return `The ability "${ability}" is ${place}, ${progress} steps done`
}

function whatToDo({ level, steps }: EnforcedAbility): string {
  const leave =
    level === 'strict'
      ? 'ability_cancel asks a person to end it'
      : 'ability_cancel ends it, which is recorded'
  const wait = steps.some(({ type }) => type === 'approval')
    ? 'a person has to answer first'
    : 'only reading and status tools work until it is over'
  return `${wait}. End your turn or look with ability_status; ${leave}`
}

const strictness: readonly AbilityEnforcement[] = ['loose', 'normal', 'strict']

/** Of an ability and those that have called it. */
export const strictestEnforcement = (levels: readonly AbilityEnforcement[]): AbilityEnforcement =>
  strictness[Math.max(0, ...levels.map((level) => strictness.indexOf(level)))] ?? 'strict'
