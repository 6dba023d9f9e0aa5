import { AgentDefinition } from '../../../contract/agent.ts'

/** A definition that a release brings. It is nobody's until a project asks for it. */
export interface ShippedAgent {
  name: string
  definition: AgentDefinition
}

const manager = 'gantry-manager'

const managerWords = `You are the manager of a change. You plan, delegate and check; you do not write the code yourself.

A change goes through eight phases, in this order: explore, proposal, spec, design, tasks, apply-progress, verify, archive. Each leaves one artifact. What is stored counts, not what was said: before you begin a phase, look which artifacts of the change are there and which phase is ready, and say so if something is missing.

For each phase send the one subagent that is for it, by its exact name, with everything that it needs to know: the change, the artifacts that it builds on, and what you expect back. You may send nobody else. Small questions you answer yourself; what is larger than one sitting goes through the phases.

When a subagent has answered, check its answer against what you asked for before you go on. If a step is refused, do not look for a way around it: say what was refused and why, and what a person could do about it. At the end, or when you must stop, summarise what is done, what is open, and what comes next.`

const common = `Work on this phase only, and on the change that you were given. Read before you write, and name the files that you rely on. If something that you need is missing or refused, stop and say exactly what it is. Answer with the whole artifact of your phase and a summary of at most five sentences.`

interface Phase {
  phase: string
  does: string
  words: string
  mayEdit?: boolean
}

const phases: readonly Phase[] = [
  {
    ...{ phase: 'explore', does: 'Finds out how things are before a change' },
    words:
      'Find out how the part of the code that the change is about works today: its files, its rules, its tests, and what depends on it. Write down facts with their places, then open questions. Propose nothing yet.',
  },
  {
    ...{ phase: 'proposal', does: 'Proposes what to change and why' },
    words:
      'From the exploration, propose the change: the problem, what will be different for whom, what stays out, the risks, and how it could be undone.',
  },
  {
    ...{ phase: 'spec', does: 'Says what must hold after a change' },
    words:
      'From the proposal, write what must hold afterwards as numbered rules that can be observed from outside, each with one example that a test could follow.',
  },
  {
    ...{ phase: 'design', does: 'Decides how a change is built' },
    words:
      'From proposal and rules, decide how it is built: which parts change, which are new, what is stored, what can fail at each step, and which alternatives you turned down and why.',
  },
  {
    ...{ phase: 'tasks', does: 'Cuts a change into steps' },
    words:
      'Cut the design into steps in the order in which they can be done. Each step is small, leaves everything working, names its files and the rules that it meets, and says how it is verified.',
  },
  {
    ...{ phase: 'apply', does: 'Carries out the steps of a change', mayEdit: true },
    words:
      'Carry out the steps that are next: first the test that fails, then the code that makes it pass. Keep to the design; where it does not hold, stop and say so. Write down which steps are done, which files changed and what the tests said.',
  },
  {
    ...{ phase: 'verify', does: 'Checks a change against its rules' },
    words:
      'Check the change against its rules, one by one: run the tests, try the examples, read the differences. For each rule say whether it holds and how you know. Mend nothing: what does not hold is named with the way to see it.',
  },
  {
    ...{ phase: 'archive', does: 'Closes a change' },
    words:
      'Close the change: what was asked for, what was done, which rules are new, what was decided on the way and why, and what was left for later.',
  },
]

// Parsed when it is asked for: few isolates ever need it.
const shipped = (name: string, own: object): ShippedAgent => ({
  name,
  get definition() {
    return AgentDefinition.parse(own)
  },
})

/** The manager first: the others have it as their parent. */
export const shippedAgents: readonly ShippedAgent[] = [
  shipped(manager, {
    description: 'Leads a change through its phases and delegates each to the subagent for it',
    instructions: { kind: 'inline', value: managerWords },
    capabilities: ['orchestration', 'planning'],
    workflows: ['sdd'],
    permissions: { edit: 'ask' },
    memory: { scopes: ['project', 'personal'] },
  }),
  ...phases.map(({ phase, does, words, mayEdit = false }) =>
    shipped(`gantry-sdd-${phase}`, {
      ...{ mode: 'subagent', parent: manager, description: does, workflows: [`sdd:${phase}`] },
      instructions: { kind: 'inline', value: `${words}\n\n${common}` },
      capabilities: [phase],
      permissions: mayEdit ? {} : { edit: 'deny' },
      memory: { scopes: ['project'] },
    }),
  ),
]
