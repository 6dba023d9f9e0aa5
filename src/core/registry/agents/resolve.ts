import type {
  AgentMatch,
  AgentReason,
  AgentResolution,
  AgentResolve,
  AgentSkipped,
  ResolvedAgent,
} from '../../../contract/agent-resolve.ts'
import type { AgentRow } from '../../../contract/agent.ts'

/** What is known of an agent when a task is given away. Of one of another project only who it is. */
export interface Candidate extends ResolvedAgent {
  /** Null: it is of another project, and nothing more is looked at. */
  definition:
    | (Pick<AgentRow, 'description' | 'capabilities' | 'workflows' | 'skills' | 'parent'> & {
        adapters: readonly string[]
      })
    | null
}

/**
 * Ranks who may be given a task. Pure, and total: every candidate is either ranked or skipped, and the answer does not
 * depend on the order in which candidates come. It asks no model, runs nothing and writes nothing.
 *
 * What is asked for and cannot be met skips a candidate; everything else only adds points. Ties are broken by mode, name
 * and id, so that no two differ in nothing.
 */
export function resolveAgents(
  candidates: readonly Candidate[],
  asked: AgentResolve,
): AgentResolution {
  const matches: AgentMatch[] = []
  const skipped: AgentSkipped[] = []
  for (const candidate of candidates) {
    const reasons = mismatches(candidate, asked)
    const agent = shown(candidate)
    if (reasons.length > 0) skipped.push({ agent, reasons })
    else matches.push(scored(agent, candidate, asked))
  }
  return {
    candidates: matches.sort((a, b) => b.score - a.score || byRank(a.agent, b.agent)),
    skipped: skipped.sort((a, b) => byRank(a.agent, b.agent)),
  }
}

const shown = ({ id, name, project, scope, mode, revision }: Candidate): ResolvedAgent => ({
  ...{ id, name, project, scope, mode, revision },
})

/** Not by language, which differs from host to host. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
const byRank = (a: ResolvedAgent, b: ResolvedAgent): number =>
  compare(a.mode, b.mode) || compare(a.name, b.name) || compare(a.id, b.id)

function mismatches(candidate: Candidate, asked: AgentResolve): AgentSkipped['reasons'] {
  const { project, scope, mode, definition } = candidate
  const reasons: AgentSkipped['reasons'] = []
  const skip = (signal: AgentSkipped['reasons'][number]['signal'], message: string) =>
    void reasons.push({ signal, message })
  if (project !== asked.project) skip('project', `It is of project "${project}"`)
  if (scope !== asked.scope) skip('scope', `Its scope is ${scope}`)
  if (asked.mode !== undefined && mode !== asked.mode) skip('mode', `It is ${article[mode]}`)
  if (definition === null) return reasons
  const { adapters, workflows, capabilities } = definition
  if (asked.adapter !== undefined && adapters.length > 0 && !adapters.includes(asked.adapter))
    skip('adapter', `It is for ${adapters.join(', ')}`)
  if (isWorkflowAsked(asked) && workflows.length > 0 && workflowPoints(workflows, asked) === null)
    skip('workflow', `It is for ${workflows.join(', ')}`)
  if (asked.capabilities.length > 0 && common(capabilities, asked.capabilities).length === 0)
    skip('capability', `It has none of ${asked.capabilities.join(', ')}`)
  return reasons
}

const article = { agent: 'an agent', subagent: 'a subagent' }

const common = (own: readonly string[], wanted: readonly string[]): string[] =>
  wanted.filter((one) => own.includes(one))

const points = {
  ...{ capability: 10, workflowPhase: 8, phase: 6, partOfPhase: 5, workflow: 4, partOfWorkflow: 3 },
  ...{ adapter: 5, parent: 5, skill: 4, mode: 1, nameWord: 3, listWord: 2, descriptionWord: 1 },
}
/** However much a task says, what it asks for by name weighs more than two capabilities. */
const maxTextPoints = 15

function scored(agent: ResolvedAgent, { definition }: Candidate, asked: AgentResolve): AgentMatch {
  const reasons =
    definition === null
      ? []
      : [
          ...common(definition.capabilities, asked.capabilities).map((name): AgentReason => ({
            ...{ signal: 'capability', points: points.capability, message: `It has "${name}"` },
          })),
          ...workflowReasons(definition.workflows, asked),
          ...adapterReasons(definition.adapters, asked),
          ...common(
            definition.skills.map(({ name }) => name),
            asked.skills,
          ).map((name): AgentReason => ({
            ...{ signal: 'skill', points: points.skill, message: `It has the skill "${name}"` },
          })),
          ...textReasons(agent, definition, asked.task),
          ...relationReasons(agent, definition, asked),
        ]
  return { agent, score: reasons.reduce((sum, reason) => sum + reason.points, 0), reasons }
}

function relationReasons(
  { mode }: ResolvedAgent,
  { parent }: NonNullable<Candidate['definition']>,
  asked: AgentResolve,
): AgentReason[] {
  const asMode = { signal: 'mode', points: points.mode, message: `It is ${article[mode]}` } as const
  const asChild = {
    signal: 'parent',
    points: points.parent,
    message: `"${parent}" delegates to it`,
  } as const
  return [
    ...(asked.mode === undefined ? [] : [asMode]),
    ...(asked.parent !== undefined && asked.parent === parent ? [asChild] : []),
  ]
}

function adapterReasons(adapters: readonly string[], { adapter }: AgentResolve): AgentReason[] {
  if (adapter === undefined) return []
  return adapters.length === 0
    ? [{ signal: 'adapter', points: 0, message: 'It is for every provider' }]
    : [{ signal: 'adapter', points: points.adapter, message: `It is for ${adapter}` }]
}

const isWorkflowAsked = ({ workflow, phase }: AgentResolve): boolean =>
  workflow !== undefined || phase !== undefined

function workflowReasons(workflows: readonly string[], asked: AgentResolve): AgentReason[] {
  const found = isWorkflowAsked(asked) ? workflowPoints(workflows, asked) : null
  return found === null
    ? []
    : [{ signal: 'workflow', points: found.points, message: `It is for "${found.form}"` }]
}

interface Found {
  form: string
  points: number
}

/** The form that says most of what is asked for, the first of equals; null: none fits. */
function workflowPoints(forms: readonly string[], asked: AgentResolve): Found | null {
  const wanted = wantedOf(asked)
  return forms.reduce<Found | null>((best, form) => {
    const worth = pointsOf(form, wanted)
    return worth > (best?.points ?? 0) ? { form, points: worth } : best
  }, null)
}

interface Wanted {
  workflow: string | undefined
  phase: string | undefined
}

/** "sdd:apply" says both; a word alone may be the name of a workflow or of a phase. */
function wantedOf({ workflow: said, phase: saidPhase }: AgentResolve): Wanted {
  const [workflow, ofWorkflow] = said?.split(':') ?? []
  const phase = saidPhase ?? ofWorkflow
  return { workflow, phase: phaseName(phase) }
}

/** What the phase leaves behind is called apply-progress; agents are for the work itself. */
const phaseName = (phase: string | undefined): string | undefined =>
  phase === 'apply-progress' ? 'apply' : phase

function pointsOf(form: string, { workflow, phase }: Wanted): number {
  const [first = '', second] = form.split(':').map(phaseName)
  if (second === undefined) {
    if (first === phase) return points.phase
    return first === phaseName(workflow) ? points.workflow : 0
  }
  if (workflow !== undefined && phase !== undefined)
    return first === workflow && second === phase ? points.workflowPhase : 0
  if (second === phase || (phase === undefined && second === phaseName(workflow ?? '')))
    return points.partOfPhase
  return first === workflow ? points.partOfWorkflow : 0
}

/** Names are chosen; a description is prose, whose short words (the, with) say nothing. */
const minLength = { name: 3, prose: 5 }

/** Letters and digits of any language. */
const wordsOf = (text: string, shortest = minLength.name): Set<string> =>
  new Set(
    (
      text
        .normalize('NFKC')
        .toLowerCase()
        .match(/[\p{L}\p{N}]+/gu) ?? []
    ).filter((word) => word.length >= shortest),
  )

function textReasons(
  { name }: ResolvedAgent,
  { description, capabilities, skills, workflows }: NonNullable<Candidate['definition']>,
  task: string,
): AgentReason[] {
  const lists = [...capabilities, ...workflows, ...skills.map((skill) => skill.name)]
  const places = [
    { worth: points.nameWord, words: wordsOf(name) },
    { worth: points.listWord, words: wordsOf(lists.join(' ')) },
    { worth: points.descriptionWord, words: wordsOf(description, minLength.prose) },
  ]
  const found = [...wordsOf(task)]
    .map((word) => ({ word, worth: places.find(({ words }) => words.has(word))?.worth ?? 0 }))
    .filter(({ worth }) => worth > 0)
  if (found.length === 0) return []
  const worth = found.reduce((sum, one) => sum + one.worth, 0)
  const shownWords = found
    .map(({ word }) => word)
    .toSorted(compare)
    .slice(0, 20)
  return [
    {
      signal: 'text',
      points: Math.min(worth, maxTextPoints),
      message: `The task says ${shownWords.join(', ')}`,
    },
  ]
}
