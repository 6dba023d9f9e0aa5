/**
 * Patterns with `*` (any text) and `?` (one character). The text between two stars is looked for from left to right and
 * never again further left, so a match takes time in proportion to the text, whatever the pattern is.
 */
export type TextGlob = readonly string[]

export const textGlob = (pattern: string): TextGlob => pattern.split('*')

export function matchesText(glob: TextGlob, text: string): boolean {
  const first = glob[0] ?? ''
  const last = glob.at(-1) ?? ''
  if (glob.length === 1) return text.length === first.length && isAt(first, text, 0)
  const end = text.length - last.length
  if (!isAt(first, text, 0) || end < first.length || !isAt(last, text, end)) return false
  let from = first.length
  for (const piece of glob.slice(1, -1)) {
    const found = find(piece, text, from, end)
    if (found < 0) return false
    from = found + piece.length
  }
  return true
}

function isAt(piece: string, text: string, at: number): boolean {
  if (!piece.includes('?')) return text.startsWith(piece, at)
  if (at + piece.length > text.length) return false
  for (let i = 0; i < piece.length; i += 1) {
    if (piece[i] !== '?' && piece[i] !== text[at + i]) return false
  }
  return true
}

function find(piece: string, text: string, from: number, end: number): number {
  if (!piece.includes('?')) {
    const found = text.indexOf(piece, from)
    return found >= 0 && found + piece.length <= end ? found : -1
  }
  for (let at = from; at + piece.length <= end; at += 1) if (isAt(piece, text, at)) return at
  return -1
}

/** "npm *" is also "npm" without arguments. */
export const matchesCommand = (glob: TextGlob, command: string): boolean =>
  matchesText(glob, command) ||
  (glob.length > 1 && glob.at(-1) === '' && (glob.at(-2) ?? '').endsWith(' ')
    ? matchesText(glob, `${command} `)
    : false)

/** A shell's `[a-c]` is some one character here; what does not end is anything. */
export function globWithoutBrackets(pattern: string): string {
  let text = ''
  let from = 0
  for (let at = pattern.indexOf('['); at >= 0; at = pattern.indexOf('[', from)) {
    const end = pattern.indexOf(']', at)
    if (end < 0) return `${text}${pattern.slice(from, at)}*`
    text += `${pattern.slice(from, at)}?`
    from = end + 1
  }
  return text + pattern.slice(from)
}
