/**
 * The files that a unified diff names, read as `git apply` reads it. Whoever decides on a patch and whoever applies it ask
 * the same function, so that nothing is changed on which nobody has decided. null stands for a heading of which the file
 * cannot be told: one component is taken off a name, and only an "a" or a "b" is known to be none of the path. Lines of
 * a hunk are counted, since they may look like headings.
 */
export function diffNames(text: string): (string | null)[] {
  const names = new Set<string | null>()
  let left: Hunk = { old: 0, new: 0 }
  let mayFollow = false
  for (const line of text.split('\n')) {
    if (left.old > 0 || left.new > 0) {
      const sign: Hunk | undefined = signs[line[0] ?? ' ']
      if (sign === undefined) names.add(null)
      left = sign ? { old: left.old - sign.old, new: left.new - sign.new } : { old: 0, new: 0 }
      continue
    }
    const hunk: Hunk | null = mayFollow ? hunkOf(line) : null
    left = hunk ?? left
    // Anywhere else git takes what looks like a hunk for the text of a letter.
    mayFollow = hunk !== null || line.startsWith('+++ ') || (mayFollow && line.startsWith('\\'))
    for (const name of headingNames(line)) names.add(name)
  }
  return [...names]
}

interface Hunk {
  old: number
  new: number
}

/** How many old and new lines a line of a hunk is, by its first character. */
const signs: Record<string, Hunk> = {
  ' ': { old: 1, new: 1 },
  '-': { old: 1, new: 0 },
  '+': { old: 0, new: 1 },
  '\\': { old: 0, new: 0 },
}

function hunkOf(line: string): Hunk | null {
  const found = /^@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@/.exec(line)
  return found && { old: Number(found[1] ?? 1), new: Number(found[2] ?? 1) }
}

const side = /^(?:--- |\+\+\+ )(.*)$/s
const whole = /^(?:rename|copy) (?:from|to|old|new) (.*)$/s
const both = /^diff --git (.*)$/s

function headingNames(line: string): (string | null)[] {
  const pair = both.exec(line)?.[1]
  if (pair !== undefined) return pairNames(withoutReturn(pair))
  const moved = whole.exec(line)?.[1]
  if (moved !== undefined) return [known(plainName(withoutReturn(moved)))]
  const named = side.exec(line)?.[1]
  if (named === undefined) return []
  const name = named.startsWith('"') ? named : (named.split('\t')[0] ?? '')
  return /^\/dev\/null\s*$/.test(name) ? [] : [stripped(plainName(withoutReturn(name)))]
}

const withoutReturn = (text: string): string => (text.endsWith('\r') ? text.slice(0, -1) : text)

/** `a/x b/x`: the same name twice, or two names of which it can be told where the second begins. */
function pairNames(text: string): (string | null)[] {
  const first = text.startsWith('"') ? (/^"(?:[^"\\]|\\.)*"/s.exec(text)?.[0] ?? null) : undefined
  if (first === null) return [null]
  const middle = (text.length - 1) / 2
  const twice = text[middle] === ' ' && text.slice(1, middle) === text.slice(middle + 2)
  const at = first?.length ?? (twice ? middle : secondAt(text))
  if (at === null || text[at] !== ' ') return [null]
  return [text.slice(0, at), text.slice(at + 1)].map((name) => stripped(plainName(name)))
}

/** Where the only space is behind which a second name may begin; null: there is none, or several. */
function secondAt(text: string): number | null {
  const places = [...text.matchAll(/ (?="|[ab]\/)/g)].map(({ index }) => index)
  return places.length === 1 ? (places[0] ?? null) : null
}

/** Without quotes and escapes; null: it is no text. */
function plainName(text: string): string | null {
  if (!text.startsWith('"')) return text
  const [, inner, behind] = /^"((?:[^"\\]|\\.)*)"(.*)$/s.exec(text) ?? []
  return inner === undefined || !/^(?:\s|$)/.test(behind ?? '') ? null : unescaped(inner)
}

/** By the sign behind the backslash. */
const escapes: Record<string, number> = {
  ...{ a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 },
  ...{ '"': 34, '\\': 92 },
}

/** Escapes are bytes, which together are UTF-8. */
function unescaped(text: string): string | null {
  const bytes = text
    .replaceAll('%', '%25')
    .replaceAll(/\\([0-3][0-7]{2}|.)/gs, (_, code: string) =>
      percent(code.length === 3 ? parseInt(code, 8) : escapes[code]),
    )
  try {
    return decodeURIComponent(bytes)
  } catch {
    return null
  }
}

/** Of an escape that git does not know there is no byte, and what is left cannot be decoded. */
const percent = (byte: number | undefined): string =>
  byte === undefined ? '%-' : `%${byte.toString(16).padStart(2, '0')}`

function stripped(name: string | null): string | null {
  return name !== null && /^[ab]\/./s.test(name) ? known(name.slice(2)) : null
}

/** git ends a name at a carriage return, and at a date behind a space. Slashes in a row are one. */
const known = (name: string | null): string | null =>
  name === null || name === '' || /\r| \d{2,4}-\d\d-\d\d/.test(name)
    ? null
    : name.replaceAll(/\/{2,}/g, '/')
