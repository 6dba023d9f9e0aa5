import type { ExpectedCall, ToolTrajectory } from '../../../contract/eval-evaluator.ts'
import type { EvalToolCall } from '../../../contract/eval-response.ts'
import { hasResponseTrace, responseToolCalls } from '../response/answer.ts'
import { hasEqualKeys, isEqual, isRecord } from './equality.ts'
import {
  scoredEither,
  scoredMiss,
  roundScore,
  type Scored,
  scoredShare,
  type Subject,
  times,
} from './scored.ts'

/** Which tools were called, how often, in which order, with which arguments. */
export function scoreToolTrajectory(config: ToolTrajectory, { response }: Subject): Scored {
  const { cutCalls } = response
  if (cutCalls !== undefined)
    return scoredMiss(
      `No trace available for evaluation: ${cutCalls.event_count} calls are too many to be kept`,
    )
  if (!hasResponseTrace(response)) return scoredMiss('No trace available for evaluation')
  const calls = responseToolCalls(response)
  if (config.mode === 'any_order') return scoreMinimums(config.minimums, calls)
  return config.mode === 'in_order'
    ? scoreInOrder(config.expected, calls)
    : scoreExact(config.expected, calls)
}

function scoreMinimums(minimums: Record<string, number>, calls: readonly EvalToolCall[]): Scored {
  return scoredShare(
    Object.entries(minimums).map(([tool, least]) => {
      const count = calls.filter((call) => call.tool === tool).length
      return {
        holds: count >= least,
        says: `${tool}: called ${times(count)}, required at least ${least}`,
      }
    }),
  )
}

/** A call that does not fit is passed over; whoever is not found leaves the place to those who come after. */
function scoreInOrder(expected: readonly ExpectedCall[], calls: readonly EvalToolCall[]): Scored {
  let from = 0
  return scoredShare(
    expected.map((wanted, at) => {
      const found = calls.findIndex(
        (call, index) => index >= from && problemOf(wanted, call) === null,
      )
      if (found !== -1) {
        from = found + 1
        return { holds: true, says: `${wanted.tool}: found at position ${found + 1}` }
      }
      const near = calls.find((call, index) => index >= from && call.tool === wanted.tool)
      const why = near === undefined ? 'not found' : `found only ${problemOf(wanted, near)}`
      return { holds: false, says: `${wanted.tool}: expected as number ${at + 1}, ${why}` }
    }),
  )
}

function scoreExact(expected: readonly ExpectedCall[], calls: readonly EvalToolCall[]): Scored {
  if (expected.length === 0)
    return scoredEither(
      calls.length === 0,
      'No tool was called, as expected',
      `Expected no tool calls, got ${calls.length}: ${calls.map(({ tool }) => tool).join(', ')}`,
    )
  const checks = expected.map((wanted, at) => {
    const call = calls[at]
    const problem = call === undefined ? 'got nothing' : problemAt(wanted, call)
    const place = `Position ${at + 1}`
    return problem === null
      ? { holds: true, says: `${place}: ${wanted.tool}` }
      : { holds: false, says: `${place}: expected ${wanted.tool}, ${problem}` }
  })
  const surplus = calls.slice(expected.length).map(({ tool }, at) => ({
    holds: false,
    says: `Position ${expected.length + at + 1}: unexpected call of ${tool}`,
  }))
  const scored = scoredShare([...checks, ...surplus])
  return {
    ...scored,
    score: roundScore(scored.hits.length / Math.max(expected.length, calls.length)),
  }
}

function problemAt(wanted: ExpectedCall, call: EvalToolCall): string | null {
  if (call.tool !== wanted.tool) return `got ${call.tool}`
  const problem = problemOf(wanted, call)
  return problem === null ? null : `got it ${problem}`
}

/** Why a call is not the expected one; of the right tool it says what differs. */
function problemOf({ tool, args, output }: ExpectedCall, call: EvalToolCall): string | null {
  if (call.tool !== tool) return 'by another name'
  if (args !== undefined && args !== 'any' && !hasEqualKeys(call.input, args))
    return 'with other arguments'
  if (output === undefined || output === 'any') return null
  const fits = isRecord(output) ? hasEqualKeys(call.output, output) : isEqual(call.output, output)
  return fits ? null : 'with another output'
}
