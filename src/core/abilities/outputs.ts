import type { AgentStep } from '../../contract/ability.ts'

/** Lines that are kept at either end of an output that is to be short. */
const keptLines = 20

/** Head and tail of a text that is too long, with a mark between them. Never through the middle of a character. */
export function cutOutput(text: string, max: number): string {
  if (text.length <= max) return text
  const mark = (left: number) => `\n… ${left} characters left out …\n`
  const room = Math.max(0, max - mark(text.length).length)
  const head = text.slice(0, Math.ceil(room / 2)).replace(/[\ud800-\udbff]$/, '')
  const tail = room < 2 ? '' : text.slice(-Math.floor(room / 2)).replace(/^[\udc00-\udfff]/, '')
  return head + mark(text.length - head.length - tail.length) + tail
}

/** Head and tail, with a mark that says how much is missing. */
export function summarizeOutput(text: string): string {
  const lines = text.split('\n')
  const left = lines.length - 2 * keptLines
  if (left <= 0) return text
  return [
    ...lines.slice(0, keptLines),
    `… ${left} lines omitted …`,
    ...lines.slice(-keptLines),
  ].join('\n')
}

/** What an agent has said last, as it is kept. */
export const keptOutput = (text: string, summarize: AgentStep['summarize']): string =>
  summarize === true ? summarizeOutput(text) : text
