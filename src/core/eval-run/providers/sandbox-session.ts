import type { CliTarget, OpencodeTarget } from '../../../contract/eval-target.ts'
import type { EvalCase } from '../../../contract/eval-suite.ts'
import type { RegistryRevision } from '../../../contract/promotion.ts'
import { hashText } from '../../hash.ts'
import { policyFromBuiltin } from '../../policy/builtin-policy.ts'
import { parsePolicyDocument } from '../../policy/document.ts'
import type { AttemptTerms } from '../../session/record/attempt-terms.ts'
import { providerPrompt } from './prompt.ts'
import type { Given } from './provider.ts'

export type SandboxTarget = OpencodeTarget | CliTarget

export const cliPromptFile = '.agentv/cli/prompt'

/** What its session must hold to, beside what any session does. */
export function sandboxTerms({
  run,
  attempt,
  target,
  evalCase,
}: Given<SandboxTarget>): AttemptTerms {
  const isLogged = target.provider === 'opencode' && target.streamLogs && run.streamLogs
  const name = providerLogName({
    ...{ runId: run.id, n: attempt.n, attempt: attempt.attempt, target: target.name },
    ...{ caseId: evalCase.id, startedAt: attempt.started_at ?? run.createdAt },
  })
  return {
    evalRunId: run.id,
    // The command of a cli target is what is evaluated: whoever started the run may approve it.
    permissions: target.provider === 'opencode' ? target.permissions : 'once',
    secrets: target.secrets,
    policy: target.provider === 'opencode' ? policyOf(target) : null,
    files: [
      ...(evalCase.workspace?.files ?? []),
      ...(target.provider === 'cli'
        ? [{ path: cliPromptFile, text: providerPrompt(evalCase) }]
        : []),
    ],
    logFile: isLogged ? `${target.logDir.replace(/\/+$/, '')}/${name}` : null,
  }
}

/** The text itself: what is stored as a policy later is the same one if it is the same text. */
export const triedSandboxPolicy = ({ target }: Given<SandboxTarget>): RegistryRevision[] =>
  target.provider === 'opencode' && target.policy !== undefined
    ? [{ kind: 'policy', name: policyOf(target)?.name ?? '', sha256: hashText(target.policy) }]
    : []

function policyOf({ policy, name }: OpencodeTarget): AttemptTerms['policy'] {
  if (policy === undefined) return null
  const parsed = parsePolicyDocument(policy, 'yaml')
  if ('errors' in parsed)
    throw new TypeError(
      `The policy of target '${name}' cannot be read: ${parsed.errors[0]?.message}`,
    )
  return policyFromBuiltin(parsed.policy, 1)
}

/** What the session of an attempt is made from. */
export function sandboxSession({ run, attempt, target, evalCase }: Given<SandboxTarget>) {
  const { repository, configurationId } = evalCase.workspace ?? {}
  const budget = { moneyUsd: attempt.reserved_micros / 1_000_000 }
  return {
    project: run.project,
    title: titleOf(evalCase, target),
    idleTimeoutSeconds: null,
    replacement: 'manual',
    ...(target.sandbox !== undefined && { sandbox: target.sandbox }),
    ...(repository !== undefined && { repository }),
    ...(configurationId !== undefined && { configurationId }),
    ...(run.budget.moneyUsd !== undefined && { budget }),
    ...(target.provider === 'opencode' && modelOf(target)),
  }
}

const titleOf = ({ id }: EvalCase, { name }: SandboxTarget): string =>
  `Eval ${id} (${name})`.slice(0, 200).toWellFormed()

const modelOf = (target: OpencodeTarget) => ({
  ...(target.model !== undefined && { model: target.model }),
  ...(target.reasoningEffort !== undefined && { reasoningEffort: target.reasoningEffort }),
  ...(target.agent !== undefined && { agent: { name: target.agent } }),
  ...(target.profile !== undefined && { profile: { name: target.profile } }),
  ...(target.systemPrompt !== undefined && { system_prompt: target.systemPrompt }),
  ...(target.skills !== undefined && { skills: target.skills }),
  ...(target.ability !== undefined && { abilities: [target.ability] }),
})

const safe = (text: string): string => text.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(0, 80)

/** `<time>_<target>_<case>[_attempt-N]_<8 hex>.log`: always the same for one try of one attempt. */
function providerLogName(of: {
  runId: string
  n: number
  attempt: number
  startedAt: number
  target: string
  caseId: string
}): string {
  const time = new Date(of.startedAt).toISOString().replaceAll(/[:.]/g, '-')
  const again = of.attempt > 0 ? `_attempt-${of.attempt + 1}` : ''
  const hex = hashText(`${of.runId} ${of.n} ${of.attempt}`).slice(0, 8)
  return `${time}_${safe(of.target)}_${safe(of.caseId)}${again}_${hex}.log`
}
