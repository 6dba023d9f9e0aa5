import type { AbilityDocument } from '../../contract/ability.ts'
import { readPattern } from './patterns.ts'

/** A message is looked at from its beginning; nobody asks for a deployment on its hundredth page. */
const maxCharacters = 16_384
/** One ability is proposed at most so often. */
export const proposeAgainMs = 10_000

type Triggered = Pick<AbilityDocument, 'triggers'>

/** Whether a message speaks of it: one of its keywords is in the text, in any case, or one of its patterns matches. */
export function isTriggered({ triggers }: Triggered, text: string): boolean {
  if (triggers === undefined) return false
  const shown = text.slice(0, maxCharacters)
  const folded = shown.toLowerCase()
  if (triggers.keywords.some((keyword) => folded.includes(keyword.toLowerCase()))) return true
  return triggers.patterns.some((source) => {
    const read = readPattern(source, { ignoreCase: true })
    return 'pattern' in read && read.pattern.test(shown)
  })
}
