/**
 * Where a pattern ends that is written between two delimiters; -1: nowhere in its line, or it cannot be told. Inside of
 * brackets a delimiter stands for itself to most programs, though not to all.
 */
export function patternEnd(
  text: string,
  from: number,
  delimiter: string,
  readsBrackets: boolean,
): number {
  for (let at = from; at < text.length; at += 1) {
    const char = text[at] ?? ''
    if (char === '\n') return -1
    if (char === '\\') at += 1
    else if (char === delimiter) return at
    else if (char === '[' && readsBrackets) {
      at = bracketsEnd(text, at)
      if (at < 0) return -1
    }
  }
  return -1
}

function bracketsEnd(text: string, from: number): number {
  let at = from + 1
  if (text[at] === '^') at += 1
  // At the beginning it stands for itself.
  if (text[at] === ']') at += 1
  for (; at < text.length && text[at] !== '\n'; at += 1) {
    if (text[at] === ']') return at
    // Some take the backslash for itself, and then the bracket ends here.
    if (text[at] === '\\' && text[at + 1] === ']') return -1
    if (text[at] === '\\') at += 1
    else if (text[at] === '[' && /[:.=]/.test(text[at + 1] ?? '')) {
      at = text.indexOf(`${text[at + 1]}]`, at + 2) + 1
      if (at === 0) return -1
    }
  }
  return -1
}
