import type { CallCounts, EvalToolCall, ProviderResponse } from '../../../contract/eval-response.ts'
import type { TraceSummary } from '../../../contract/eval-result.ts'

/** What is graded: the content of the last assistant message that has one; what is no text becomes JSON. */
export function responseAnswer({ outputMessages }: ProviderResponse): string {
  const last = outputMessages.findLast(
    ({ role, content }) =>
      role === 'assistant' && content !== undefined && content !== null && content !== '',
  )
  const content = last?.content ?? ''
  return typeof content === 'string' ? content : JSON.stringify(content)
}

export const responseToolCalls = ({ outputMessages }: ProviderResponse): EvalToolCall[] =>
  outputMessages.flatMap(({ toolCalls }) => toolCalls ?? [])

/** Whether it is known which tools were called: an empty list says that none was. */
export const hasResponseTrace = ({ outputMessages }: ProviderResponse): boolean =>
  outputMessages.some(({ toolCalls }) => toolCalls !== undefined)

export function countResponseCalls(response: ProviderResponse): CallCounts {
  const calls = responseToolCalls(response)
  const byName = new Map<string, number>()
  for (const { tool } of calls) byName.set(tool, (byName.get(tool) ?? 0) + 1)
  return {
    event_count: calls.length,
    tool_names: [...byName.keys()].toSorted(),
    tool_calls_by_name: Object.fromEntries(byName),
    error_count: calls.filter(({ error }) => error !== undefined).length,
  }
}

export function responseTrace(response: ProviderResponse): TraceSummary {
  const { cutCalls, tokenUsage, costUsd, durationMs } = response
  return {
    ...(cutCalls === undefined ? countResponseCalls(response) : { ...cutCalls, cut: true }),
    ...(tokenUsage !== undefined && { token_usage: tokenUsage }),
    ...(costUsd !== undefined && { cost_usd: costUsd }),
    ...(durationMs !== undefined && { duration_ms: durationMs }),
  }
}

/** The workspace is another folder in each attempt: results of two runs are equal only if it is not named in them. */
export function responseWithoutRoot<T>(given: T, root: string): T {
  const trimmed = root.replace(/\/+$/, '')
  return trimmed === '' ? given : (replaceIn(given, trimmed) as T)
}

function replaceIn(given: unknown, root: string): unknown {
  if (typeof given === 'string') return replaceRoot(given, root)
  if (Array.isArray(given)) return given.map((item) => replaceIn(item, root))
  if (typeof given !== 'object' || given === null) return given
  return Object.fromEntries(
    Object.entries(given).map(([key, item]) => [key, replaceIn(item, root)]),
  )
}

/** `/work/a` is not the beginning of `/work/ab`. */
const replaceRoot = (text: string, root: string): string =>
  text
    .split(root)
    .reduce(
      (before, after) => before + (/^[A-Za-z0-9_.-]/.test(after) ? root : '$WORKSPACE') + after,
    )

/** The whole text, or the one block of code that it has: agents like to put JSON into one. */
export function jsonOfAnswer(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const blocks = [...given.matchAll(/```(?:json)?\s*\n([\s\S]*?)\n\s*```/g)]
  for (const text of [given, ...(blocks.length === 1 ? [blocks[0]?.[1] ?? ''] : [])])
    try {
      return JSON.parse(text)
    } catch {
      // The next one, or none.
    }
  return undefined
}
