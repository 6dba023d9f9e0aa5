const maxLength = 500
const maxWords = 64

/**
 * What a shell makes of the lists in braces of one word: `a{b,c}` is two words, `{1..3}` three. Quotes and `${…}` are kept
 * as they are. null: too much to tell, or a substitution is in it.
 */
export function expandBraces(text: string): string[] | null {
  if (text.length > maxLength || /`|\$\(/.test(text)) return null
  const words = expand(text, 0)
  return words.length > maxWords ? null : words
}

function expand(text: string, from: number): string[] {
  for (let at = from; at < text.length; at = next(text, at)) {
    if (text[at] !== '{') continue
    const list = listAt(text, at)
    if (!list) continue
    const before = text.slice(0, at)
    const rests = expand(text.slice(list.end), 0)
    const items =
      list.items.length > maxWords ? list.items : list.items.flatMap((item) => expand(item, 0))
    if (items.length * rests.length > maxWords) return Array<string>(maxWords + 1).fill(text)
    return items.flatMap((item) => rests.map((rest) => `${before}${item}${rest}`))
  }
  return [text]
}

/** The place after what stands at `at`: a quoted text and a `${…}` count as one. */
function next(text: string, at: number): number {
  const char = text[at]
  if (char === '\\') return at + 2
  if (char === "'" || char === '"') return after(text, char, at + 1)
  if (char === '$' && text[at + 1] === '{') return after(text, '}', at + 2)
  return at + 1
}

function after(text: string, closing: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '\\' && closing !== "'") at += 1
    else if (text[at] === closing) return at + 1
  }
  return text.length
}

function listAt(text: string, open: number): { items: string[]; end: number } | null {
  const items: string[] = []
  let depth = 0
  let start = open + 1
  for (let at = open; at < text.length; at = next(text, at)) {
    const char = text[at]
    if (char === '{') depth += 1
    if (char === ',' && depth === 1) {
      items.push(text.slice(start, at))
      start = at + 1
    }
    if (char !== '}') continue
    depth -= 1
    if (depth > 0) continue
    const last = text.slice(start, at)
    const found = items.length > 0 ? [...items, last] : sequence(last)
    return found && { items: found, end: at + 1 }
  }
  return null
}

/** `1..5`, `a..e`, `0..10..2` */
function sequence(text: string): string[] | null {
  const [first = '', last = '', step = '1', ...more] = text.split('..')
  if (last === '' || more.length > 0 || !/^-?\d{1,9}$/.test(step)) return null
  const isNumber = /^-?\d{1,9}$/
  if (isNumber.test(first) && isNumber.test(last))
    return count(Number(first), Number(last), step, String)
  if (!/^[A-Za-z]$/.test(first) || !/^[A-Za-z]$/.test(last)) return null
  const [from, to] = [first.charCodeAt(0), last.charCodeAt(0)]
  return count(from, to, step, (code) => String.fromCharCode(code))
}

function count(from: number, to: number, step: string, show: (one: number) => string): string[] {
  const by = Math.max(1, Math.abs(Number(step)))
  const length = Math.min(Math.floor(Math.abs(to - from) / by) + 1, maxWords + 1)
  return Array.from({ length }, (_, index) =>
    show(from <= to ? from + index * by : from - index * by),
  )
}
