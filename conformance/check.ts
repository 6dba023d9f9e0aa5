import type { ToolResult } from '../src/contract/tool.ts'
import type { Answer } from './http.ts'

/** What was seen is not what the rule says: thrown by the checks of a case, and told as the reason that the case failed. */
class Mismatch extends Error {
  constructor(what: string, seen: unknown, wanted: unknown) {
    super(`${what}: saw ${shown(seen)}, not ${shown(wanted)}`)
    this.name = 'Mismatch'
  }
}

export function same(what: string, seen: unknown, wanted: unknown): void {
  if (JSON.stringify(seen) !== JSON.stringify(wanted)) throw new Mismatch(what, seen, wanted)
}

export function holds(what: string, seen: unknown, isRight: boolean, wanted: string): void {
  if (!isRight) throw new Mismatch(what, seen, wanted)
}

export function refused(what: string, answer: Answer, status: number, code: string): string {
  const seen = `${answer.status} ${codeOf(answer) ?? answer.text}`
  same(what, seen, `${status} ${code}`)
  return seen
}

/** The answer of a tool, as it is in the body. */
export function answered(what: string, answer: Answer, success: boolean): ToolResult {
  if (answer.status !== 200) throw new Mismatch(what, `${answer.status} ${answer.text}`, 200)
  const result = parse(answer.text) as ToolResult | undefined
  if (result?.success !== success) throw new Mismatch(what, answer.text, `success: ${success}`)
  return result
}

export function sameBytes(what: string, answers: Answer[]): void {
  const [first, ...rest] = answers
  for (const answer of rest)
    same(what, `${answer.status} ${answer.text}`, `${first?.status} ${first?.text}`)
}

function codeOf({ text }: Answer): string | undefined {
  return (parse(text) as { error?: { code?: string } } | undefined)?.error?.code
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
