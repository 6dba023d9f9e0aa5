import type { EvaluatorConfig, LeafEvaluator } from '../../../contract/eval-evaluator.ts'
import type { EvaluatorAnswer, EvaluatorRequest } from '../../../contract/eval-request.ts'
import type { EvaluatorResult } from '../../../contract/eval-result.ts'
import { scoreFieldAccuracy } from './field-accuracy.ts'
import { scoreJsonSchema } from './json-schema.ts'
import { scoreCodeJudge, scoreLlmJudge, scoreRubricJudge } from './judge-answer.ts'
import {
  codeJudgeInput,
  type JudgePrompt,
  llmJudgePrompt,
  rubricJudgePrompt,
} from './judge-prompt.ts'
import { scoreCostLimit, scoreLatencyLimit, scoreTokenLimit } from './limits.ts'
import { scoredMiss, roundScore, type Scored, type Subject, scoredVerdict } from './scored.ts'
import { scoreTextContains, scoreTextEquals, scoreTextRegex } from './texts.ts'
import { scoreToolTrajectory } from './tool-trajectory.ts'
import {
  scoreWorkspaceCommand,
  scoreWorkspaceDiff,
  scoreWorkspaceEvidence,
  scoreWorkspaceFiles,
  scoreWorkspaceFileText,
  scoreWorkspacePolicy,
} from './workspace.ts'

/**
 * Scores attempts. Pure: `scoreRequests` says what must be found out in the sandbox or by a model, and `scoreCase` scores the
 * case, the response and the answers to these requests. Who runs attempts calls both; replays call them with no sandbox.
 */

export type Answers = Readonly<Record<string, EvaluatorAnswer>>

/** In the order in which they are found out, which is not that of the evaluators. */
export function scoreRequests(subject: Subject): EvaluatorRequest[] {
  return subject.case.evaluators
    .flatMap((config) =>
      config.type === 'composite'
        ? config.evaluators.flatMap((part) => requestOf(partId(config, part), part, subject))
        : requestOf(requestId(config), config, subject),
    )
    .toSorted((a, b) => steps[a.kind] - steps[b.kind])
}

/**
 * First what only looks, then judges that are programs, then commands: these run what the candidate has left, which could
 * put its traces away.
 */
const steps: Record<EvaluatorRequest['kind'], number> = {
  ...{ changes: 0, files: 0, policy: 0, evidence: 0 },
  ...{ code_judge: 1, command: 2, model: 3 },
}

/** A name may have a "/" itself. */
const requestId = ({ name }: { name: string }): string =>
  name.replaceAll(/[%/]/g, encodeURIComponent)
const partId = (whole: { name: string }, part: { name: string }): string =>
  `${requestId(whole)}/${requestId(part)}`

function requestOf(id: string, config: LeafEvaluator, subject: Subject): EvaluatorRequest[] {
  switch (config.type) {
    case 'file_exists':
      return [{ id, kind: 'files', paths: config.paths, texts: false }]
    case 'file_matches':
      return [{ id, kind: 'files', paths: [config.path], texts: true }]
    case 'command': {
      const { command, cwd, timeoutSeconds } = config
      return [{ id, kind: 'command', command, timeoutSeconds, ...(cwd !== undefined && { cwd }) }]
    }
    case 'code_judge': {
      const { command, timeoutSeconds } = config
      const input = codeJudgeInput(config, subject)
      return [{ id, kind: 'code_judge', command, input, timeoutSeconds }]
    }
    case 'llm_judge':
      return [modelRequest(id, config.target, llmJudgePrompt(config, subject))]
    case 'rubric':
      return [modelRequest(id, config.target, rubricJudgePrompt(config, subject))]
    case 'diff_scope':
      return [{ id, kind: 'changes' }]
    case 'policy':
      return [{ id, kind: 'policy' }]
    case 'evidence':
      return [{ id, kind: 'evidence' }]
    default:
      return []
  }
}

const modelRequest = (
  id: string,
  target: string | undefined,
  prompt: JudgePrompt,
): EvaluatorRequest => ({
  id,
  kind: 'model',
  ...(target !== undefined && { target }),
  ...prompt,
})

export interface CaseScore {
  score: number
  hits: string[]
  misses: string[]
  reasoning?: string
  results: EvaluatorResult[]
}

/** With several evaluators each sentence says whose it is. */
export function scoreCase(subject: Subject, answers: Answers): CaseScore {
  const results = subject.case.evaluators.map((config) => scoreOne(config, subject, answers))
  const { score, lost } = meanOf(results)
  const says = (of: (result: EvaluatorResult) => string[]) =>
    results.flatMap((result) =>
      of(result).map((text) => (results.length > 1 ? `${result.name}: ${text}` : text)),
    )
  const [only] = results
  return {
    score,
    hits: says(({ hits }) => hits),
    misses: [...lost, ...says(({ misses }) => misses)],
    ...(results.length === 1 && only?.reasoning !== undefined && { reasoning: only.reasoning }),
    results,
  }
}

function scoreOne(config: EvaluatorConfig, subject: Subject, answers: Answers): EvaluatorResult {
  if (config.type !== 'composite')
    return resultOf(config, leafScore(requestId(config), config, subject, answers))
  const parts = config.evaluators.map((part) =>
    resultOf(part, leafScore(partId(config, part), part, subject, answers)),
  )
  const { score, lost } = meanOf(parts)
  const says = (of: (result: EvaluatorResult) => string[]) =>
    parts.flatMap((part) => of(part).map((text) => `${part.name}: ${text}`))
  const hits = says(({ hits: own }) => own)
  const misses = [...lost, ...says(({ misses: own }) => own)]
  return { ...resultOf(config, { score, hits, misses }), evaluator_results: parts }
}

const resultOf = (
  { name, type, weight, required }: EvaluatorConfig,
  { score, hits, misses, reasoning, details }: Scored,
): EvaluatorResult => ({
  name,
  type,
  score,
  weight,
  required,
  verdict: scoredVerdict(score),
  hits,
  misses,
  ...(reasoning !== undefined && { reasoning }),
  ...(details !== undefined && { details }),
})

/** The weighted mean; 0 if a required one does not pass, or nothing has a weight. */
function meanOf(results: readonly EvaluatorResult[]): { score: number; lost: string[] } {
  const lost = results
    .filter(({ required, verdict }) => required && verdict !== 'pass')
    .map(({ name, score }) => `Required evaluator "${name}" did not pass: ${score}`)
  const total = results.reduce((sum, { weight }) => sum + weight, 0)
  const reached = results.reduce((sum, { weight, score }) => sum + weight * score, 0)
  if (total === 0) return { score: 0, lost: [...lost, 'No evaluator has a weight'] }
  return { score: lost.length > 0 ? 0 : roundScore(reached / total), lost }
}

/** One that throws scores 0 and says so; the others are not touched. */
function leafScore(id: string, config: LeafEvaluator, subject: Subject, answers: Answers): Scored {
  try {
    return scoreLeaf(id, config, subject, answers)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return scoredMiss(`Evaluator "${config.name}" failed: ${why}`)
  }
}

function scoreLeaf(id: string, config: LeafEvaluator, subject: Subject, answers: Answers): Scored {
  switch (config.type) {
    case 'tool_trajectory':
      return scoreToolTrajectory(config, subject)
    case 'field_accuracy':
      return scoreFieldAccuracy(config, subject)
    case 'latency':
      return scoreLatencyLimit(config, subject)
    case 'cost':
      return scoreCostLimit(config, subject)
    case 'token_usage':
      return scoreTokenLimit(config, subject)
    case 'contains':
      return scoreTextContains(config, subject)
    case 'equals':
      return scoreTextEquals(config, subject)
    case 'regex':
      return scoreTextRegex(config, subject)
    case 'json_schema':
      return scoreJsonSchema(config, subject)
    case 'file_exists':
      return scoreWorkspaceFiles(config, answerTo(answers, id, 'files'))
    case 'file_matches':
      return scoreWorkspaceFileText(config, answerTo(answers, id, 'files'))
    case 'command':
      return scoreWorkspaceCommand(config, answerTo(answers, id, 'command'))
    case 'diff_scope':
      return scoreWorkspaceDiff(config, answerTo(answers, id, 'changes'))
    case 'policy':
      return scoreWorkspacePolicy(config, answerTo(answers, id, 'policy'))
    case 'evidence':
      return scoreWorkspaceEvidence(config, answerTo(answers, id, 'evidence'))
    case 'code_judge':
      return scoreCodeJudge(config, answerTo(answers, id, 'code_judge'))
    case 'llm_judge': {
      const { text } = answerTo(answers, id, 'model')
      return recorded(scoreLlmJudge(text), llmJudgePrompt(config, subject), text)
    }
    default: {
      const { text } = answerTo(answers, id, 'model')
      return recorded(scoreRubricJudge(config, text), rubricJudgePrompt(config, subject), text)
    }
  }
}

/** Why a judge gave a score can only be seen from what it was asked and what it said. */
const recorded = (scored: Scored, { system, prompt }: JudgePrompt, answer: string): Scored => ({
  ...scored,
  details: { system, prompt, answer: answer.slice(0, 20_000) },
})

function answerTo<K extends EvaluatorAnswer['kind']>(
  answers: Answers,
  id: string,
  kind: K,
): Extract<EvaluatorAnswer, { kind: K }> {
  const answer = Object.hasOwn(answers, id) ? answers[id] : undefined
  if (answer === undefined) throw new Error('What it needs was not found out')
  if (answer.kind === 'failed') throw new Error(answer.message)
  if (answer.kind !== kind) throw new Error(`Got ${answer.kind} instead of ${kind}`)
  return answer as Extract<EvaluatorAnswer, { kind: K }>
}
