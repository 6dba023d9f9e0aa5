import {
  type Enforcement,
  executors,
  type IsolationPlan,
  Operation,
  type Strategy,
} from '../../contract/operation.ts'
import type { Decision, PermissionRequest } from '../../contract/permission.ts'
import { type Step, actSteps } from './acts.ts'
import type { Rules } from './rules.ts'

interface PlanOptions {
  /** What the sandbox says it can hold a process to. */
  enforceable: readonly Enforcement[]
  /** Absent: not decided yet. */
  decision?: { decision: Decision; reason: string } | undefined
  timeoutMs?: number | undefined
  /** The caller says that it needs the network. */
  network?: boolean | undefined
  /** A command that works on the workspace as the agent's own would, not on a branch of it. */
  inPlace?: boolean | undefined
}

const memoryBytes = 1024 ** 3
const processes = 256
const outputBytes = 1024 ** 2
const everyHost: Rules = { list: [], byPath: false, byHost: true }

/** How an operation would be kept apart from everything else. Has no side effect. */
export function planIsolation(request: PermissionRequest, options: PlanOptions): IsolationPlan {
  const steps = actSteps(request, everyHost)
  const strategy = strategyOf(request, steps, options)
  const network = strategy !== 'denied' && (options.network === true || steps.some(usesNetwork))
  const enforce = enforcementOf(strategy, request, network)
  const notEnforced = enforce.filter((each) => !options.enforceable.includes(each))
  return {
    strategy,
    pathConstraints: constraintsOf(strategy, request),
    conditions: conditionsOf(strategy, enforce, notEnforced, options),
    realPathFirst: enforce.includes('real-path'),
    network,
    limits: { timeoutMs: options.timeoutMs ?? 60_000, memoryBytes, processes, outputBytes },
    enforce,
    notEnforced,
    limitations: [
      ...limitations[strategy],
      ...missing(request, strategy),
      ...notEnforced.map((each) => `This sandbox cannot enforce: ${each}`),
    ],
  }
}

const missing = ({ operation }: PermissionRequest, strategy: Strategy): string[] => {
  const known = Operation.shape.operation.safeParse(operation)
  const has = !known.success || executors[strategy].includes(known.data)
  return has || strategy === 'denied' ? [] : [noExecutor(operation, strategy)]
}

export const noExecutor = (operation: string, strategy: Strategy): string =>
  `There is no executor for "${operation}" by ${strategy}`

/** What cannot be enforced is a person's decision, even where the policy allows the operation. */
export const mustAsk = ({ strategy, notEnforced }: IsolationPlan): boolean =>
  strategy !== 'denied' && notEnforced.length > 0

const usesNetwork = ({ category, host }: Step): boolean => category === 'network' || host !== null

function strategyOf(
  { category, command, operation }: PermissionRequest,
  steps: readonly Step[],
  { decision, inPlace = false }: PlanOptions,
): Strategy {
  const has = (risk: Step['risks'][number]) => steps.some(({ risks }) => risks.includes(risk))
  if (decision?.decision === 'deny') return 'denied'
  if (steps.some((step) => step.category === 'external-directory')) return 'denied'
  if (inPlace || has('privileged')) return 'process-sandbox'
  // It compares before it writes, which is worth something only where the others write.
  if (operation === 'revert-file') return 'workspace'
  if (category === 'edit' || category === 'git') return 'git-worktree'
  if (category === 'shell' && has('destructive')) return 'git-worktree'
  if ((category === 'read' || category === 'secrets') && command === null) return 'workspace'
  return 'process-sandbox'
}

function enforcementOf(
  strategy: Strategy,
  { category, command }: PermissionRequest,
  network: boolean,
): Enforcement[] {
  if (strategy === 'denied') return []
  if (command === null && category !== 'network')
    return strategy === 'process-sandbox' ? ['time', 'output'] : ['real-path', 'output']
  if (command === null) return ['time', 'output']
  const offline: Enforcement[] = network ? [] : ['network']
  return [...offline, 'memory', 'processes', 'time', 'output']
}

/** Everything that is touched lies in one of these. */
function constraintsOf(strategy: Strategy, request: PermissionRequest): string[] {
  if (strategy === 'denied') return []
  return strategy === 'workspace'
    ? [request.workspaceRoot, ...request.sessionPaths]
    : [request.workspaceRoot]
}

function conditionsOf(
  strategy: Strategy,
  enforce: readonly Enforcement[],
  notEnforced: readonly Enforcement[],
  { decision }: PlanOptions,
): string[] {
  if (strategy === 'denied')
    return [`Not executed: ${decision?.reason ?? 'it leaves the workspace'}`]
  const conditions: string[] = []
  if (!decision) conditions.push('The policy allows it')
  if (decision?.decision === 'ask') conditions.push(`An approval: ${decision.reason}`)
  if (notEnforced.length > 0) conditions.push(`An approval without: ${notEnforced.join(', ')}`)
  if (enforce.includes('real-path'))
    conditions.push('The real path is in the workspace when the file is opened')
  if (strategy === 'git-worktree')
    conditions.push('A merge, as a step of its own, before the workspace changes')
  return conditions
}

const limitations: Record<Strategy, string[]> = {
  workspace: ['Reads only'],
  'git-worktree': [
    'Works on what is committed: changes and ignored files of the workspace are not in the worktree',
    'What it does outside its worktree cannot be undone by dropping the branch',
  ],
  'process-sandbox': ['The process can change files of the workspace'],
  denied: ['Nothing is executed'],
}
