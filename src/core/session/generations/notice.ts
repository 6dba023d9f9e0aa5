import type { Sql } from '../../ports.ts'
import { loadGeneration, type Missing, missingFromGeneration } from './generations.ts'

const maxTurns = 3
const maxPromptLength = 300
const maxTextLength = 700

/** What a new sandbox is without, for people and for the model. */
export function generationNoticeText({ since, anything }: Missing): string {
  if (!anything) return 'Nothing of the workspace'
  const what = 'files, commits that were not pushed and uncommitted work'
  return since === null
    ? `All ${what}: the workspace starts anew`
    : `Whatever was changed after the snapshot of ${new Date(since).toISOString()}: ${what}`
}

/**
 * For the first prompt that reaches this sandbox: the model has a new OpenCode without its conversation, and perhaps
 * other files than it left. Null if there was no conversation, or if it was told already.
 */
export function generationNotice(sql: Sql, now: number, generation: number): string | null {
  // The first one replaces nothing, whether or not a prompt has reached it yet.
  if (generation === 1) return null
  const own = loadGeneration(sql, generation)
  if (!own || own.toldAt !== null) return null
  const turns = lastTurns(sql)
  if (turns.length === 0) return null
  const before = loadGeneration(sql, generation - 1)
  const missing = missingFromGeneration(sql, now, own.snapshotId)
  const interrupted = turns.at(-1)?.state === 'interrupted'
  return [
    `Note from Gantry: the sandbox in which you worked has ended (${before?.reason ?? 'no reason given'}), and this is a new one.`,
    `Lost: ${generationNoticeText(missing)}.`,
    'Background processes have ended, and files outside of the workspace may be gone.',
    interrupted ? 'The last turn was interrupted, and nothing of it was sent again.' : '',
    'Check the state of the workspace before you go on. What was said before, shortened:',
    ...turns.map(told),
  ]
    .filter((line) => line !== '')
    .join('\n')
}

interface TurnText {
  state: string
  prompt: string
  text: string | null
  reason: string | null
}

function lastTurns(sql: Sql): TurnText[] {
  return sql
    .all<TurnText>(
      `select state, prompt, text, reason from turns where started_at is not null and ended_at is not null
       order by n desc limit ?`,
      maxTurns,
    )
    .toReversed()
}

function told({ state, prompt, text, reason }: TurnText): string {
  const end = state === 'completed' ? '' : ` (${state}: ${reason ?? 'no reason given'})`
  return `- User: ${shorten(prompt, maxPromptLength)}\n  You: ${shorten(text ?? '', maxTextLength)}${end}`
}

/** Never through the middle of a character. */
const shorten = (text: string, max: number) =>
  text.length > max ? `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')} …` : text
