import { z } from 'zod'
import type { CodeJudge, RubricJudge } from '../../../contract/eval-evaluator.ts'
import type { EvaluatorAnswer } from '../../../contract/eval-request.ts'
import { parseDocument } from '../../documents.ts'
import { scoredMiss, roundScore, type Scored } from './scored.ts'
import { lastLines } from './workspace.ts'

/**
 * A judge's answer is one JSON object of the asked form and nothing else. Whatever else comes scores 0 and says so: no
 * second object, no key twice, no text around it is guessed about.
 */

const sentences = z.array(z.string().max(4000)).max(100).default([])
const Judged = z.strictObject({
  score: z.number().min(0).max(1),
  hits: sentences,
  misses: sentences,
  reasoning: z.string().max(20_000).default(''),
})
const Checked = z.strictObject({
  checks: z
    .array(
      z.strictObject({
        id: z.string(),
        satisfied: z.boolean(),
        reasoning: z.string().max(4000).default(''),
      }),
    )
    .max(100),
})

function read<T>(text: string, schema: z.ZodType<T>, who: string): { value: T } | { miss: string } {
  const unusable = (why: string) => ({ miss: `The ${who} gave no usable answer: ${why}` })
  if (text.trim() === '') return unusable('it was empty')
  const parsed = parseDocument(text.trim(), 'json', { schema, maxBytes: 256 * 1024 })
  if ('value' in parsed) return parsed
  const [first] = parsed.errors
  return unusable(`${first?.path ? `${first.path}: ` : ''}${first?.message ?? 'not JSON'}`)
}

function judged(text: string, who: string): Scored {
  const answer = read(text, Judged, who)
  if ('miss' in answer) return scoredMiss(answer.miss)
  const { score, hits, misses, reasoning } = answer.value
  return { score: roundScore(score), hits, misses, ...(reasoning !== '' && { reasoning }) }
}

export const scoreLlmJudge = (text: string): Scored => judged(text, 'judge')

export function scoreCodeJudge(
  { timeoutSeconds }: CodeJudge,
  answer: Extract<EvaluatorAnswer, { kind: 'code_judge' }>,
): Scored {
  if (answer.timedOut) return scoredMiss(`The code judge timed out after ${timeoutSeconds}s`)
  if (answer.exitCode !== 0) {
    const said = lastLines(answer.stderr)
    const how = answer.exitCode === null ? 'was ended' : `exited with code ${answer.exitCode}`
    return scoredMiss(`The code judge ${how}${said && `: ${said}`}`)
  }
  return judged(answer.stdout, 'code judge')
}

/** Each rubric once, and no other. A required one that is not satisfied makes it 0. */
export function scoreRubricJudge({ rubrics }: RubricJudge, text: string): Scored {
  const answer = read(text, Checked, 'judge')
  if ('miss' in answer) return scoredMiss(answer.miss)
  const { checks } = answer.value
  const ids = checks.map(({ id }) => id)
  const wanted = rubrics.map(({ id }) => id)
  if (ids.toSorted().join('\n') !== wanted.toSorted().join('\n'))
    return scoredMiss(
      `The judge gave no usable answer: its checks are not ${wanted.join(', ')}, each once`,
    )
  const hits: string[] = []
  const misses: string[] = []
  let [reached, possible, isLost] = [0, 0, false]
  for (const { id, description, weight, required } of rubrics) {
    const check = checks.find((each) => each.id === id)
    const says = `${description}${check?.reasoning ? ` (${check.reasoning})` : ''}`
    possible += weight
    if (check?.satisfied === true) {
      reached += weight
      hits.push(says)
    } else {
      isLost ||= required
      misses.push(required ? `Required: ${says}` : says)
    }
  }
  return { score: isLost || possible === 0 ? 0 : roundScore(reached / possible), hits, misses }
}
