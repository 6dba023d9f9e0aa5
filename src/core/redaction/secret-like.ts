/**
 * The second net: what looks like a key of a well-known kind, though nobody has said that it is a secret. It knows
 * spellings, not values: what is encoded, broken into lines or of no known kind passes. Time is in proportion to the
 * text: each pattern is bounded, and none can begin inside of another's run.
 */
export const hideSecretLikeText = (text: string): string => hideAfter('', text)

/** `before` was given out already: it only says whether a word begins where the text does. */
function hideAfter(before: string, text: string): string {
  const from = before.length
  const open = replaceFrom(from, before + text, blocks, ([block]) =>
    isKeyBlock(block) ? labelOf('private-key') : block,
  )
  return replaceFrom(from, open, tokens, (found) => labelOf(nameOf(found.slice(1)))).slice(from)
}

/** Looks back over `from`, and leaves alone what begins before it. */
function replaceFrom(
  from: number,
  text: string,
  pattern: RegExp,
  labelFor: (found: RegExpExecArray) => string,
): string {
  let shown = ''
  let at = 0
  pattern.lastIndex = from
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
    shown += text.slice(at, found.index) + labelFor(found)
    at = pattern.lastIndex
  }
  return shown + text.slice(at)
}

/** Begins of what is searched, with what follows: name, beginning, rest. */
const kinds: readonly [name: string, begin: string, rest: string][] = [
  ['github', 'gh[pousr]_', '[A-Za-z0-9]{36,255}'],
  ['github', 'github_pat_', '[A-Za-z0-9_]{50,255}'],
  ['gitlab', 'glpat-', '[A-Za-z0-9_.-]{20,255}'],
  ['anthropic', 'sk-ant-', '[A-Za-z0-9_-]{20,255}'],
  ['openai', 'sk-(?:proj|svcacct|admin)-', '[A-Za-z0-9_-]{20,255}'],
  ['openrouter', 'sk-or-v1-', '[a-f0-9]{64}'],
  ['openai', 'sk-', '[A-Za-z0-9]{32,255}'],
  ['aws', '(?:AKIA|ASIA)', '[A-Z0-9]{16}(?![A-Za-z0-9])'],
  ['slack', 'xox[abeoprs]-', '[A-Za-z0-9-]{20,255}'],
  ['slack', 'xapp-', '[A-Za-z0-9-]{20,255}'],
  ['npm', 'npm_', '[A-Za-z0-9]{36}(?![A-Za-z0-9])'],
  ['google', 'AIza', '[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])'],
  ['stripe', '[sr]k_(?:live|test)_', '[A-Za-z0-9]{16,255}'],
  ['huggingface', 'hf_', '[A-Za-z0-9]{34}(?![A-Za-z0-9])'],
  ['sendgrid', 'SG\\.', '[A-Za-z0-9_-]{22}\\.[A-Za-z0-9_-]{43}'],
  ['pypi', 'pypi-AgE', '[A-Za-z0-9_-]{50,255}'],
  ['gantry', 'gk_', '[a-z0-9]{32}(?![A-Za-z0-9])'],
  [
    'jwt',
    '(?<![.-])eyJ',
    '[A-Za-z0-9_-]{10,4096}\\.eyJ[A-Za-z0-9_-]{10,8192}\\.[A-Za-z0-9_-]{16,2048}',
  ],
]

/** Not in the middle of a word; a line end that is written as an escape ends one. */
const boundary = String.raw`(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))`
const tokens = new RegExp(
  `${boundary}(?:${kinds.map(([, begin, rest]) => `(${begin}${rest})`).join('|')})`,
  'g',
)

const keyName = '(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----'
const blocks = new RegExp(
  String.raw`-----BEGIN ${keyName}(?:[A-Za-z0-9+/=\s:,.]|\\[nrt]|-(?!----)){0,16000}(?:-----END ${keyName})?`,
  'g',
)

/** The frame alone, as texts about keys have it, is none. */
const isKeyBlock = (block: string): boolean => /[A-Za-z0-9+/]{40}/.test(block)

const labelOf = (name: string) => `[secret-like:${name}]`
const nameOf = (groups: unknown[]): string =>
  kinds[groups.findIndex((group) => group !== undefined)]?.[0] ?? 'key'

/** As it is spelled, without alternatives: what a piece may end with. */
const begins = [
  ...['p', 'o', 'u', 's', 'r'].map((letter) => `gh${letter}_`),
  ...['a', 'b', 'e', 'o', 'p', 'r', 's'].map((letter) => `xox${letter}-`),
  ...['github_pat_', 'glpat-', 'sk-', 'AKIA', 'ASIA', 'xapp-', 'npm_', 'AIza', 'hf_', 'SG.'],
  ...['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_', 'pypi-AgE', 'gk_', 'eyJ'],
]
const frame = '-----BEGIN '
const maxHeld = 20_000

/**
 * The second net for a text that comes in pieces: always behind by what may still become something to hide. The pieces
 * together are what `hideSecretLikeText` makes of the whole. One per stream; `flush` gives out the rest at its end.
 */
export class SecretLikeStream {
  #held = ''
  /** The last of what was given out, as it came: an escape that ends a word has two characters. */
  #before = ''

  push(piece: string): string {
    const before = this.#before
    const text = this.#held + piece
    return this.#give(text, safeEnd(before + text, before.length) - before.length)
  }

  flush(): string {
    return this.#give(this.#held, this.#held.length)
  }

  #give(text: string, end: number): string {
    const before = this.#before
    const given = text.slice(0, end)
    this.#held = text.slice(end)
    this.#before = (before + given).slice(-2)
    return hideAfter(before, given)
  }
}

/** Nothing to hide that is still to come can begin before this. Before `first` nothing begins. */
function safeEnd(text: string, first: number): number {
  const start = Math.min(tokenStart(text, first), first + blockStart(text.slice(first)))
  return text.length - start > maxHeld ? text.length : start
}

const isTokenCode = (code: number): boolean =>
  (code >= 48 && code <= 57) ||
  (code >= 65 && code <= 90) ||
  (code >= 97 && code <= 122) ||
  code === 95 ||
  code === 46 ||
  code === 45

function tokenStart(text: string, first: number): number {
  let from = text.length
  while (from > first && text.length - from <= maxHeld && isTokenCode(text.charCodeAt(from - 1)))
    from -= 1
  for (let at = from; at < text.length; at++) {
    if (!isBoundary(text, at)) continue
    const rest = text.slice(at, at + 12)
    if (begins.some((begin) => begin.startsWith(rest) || rest.startsWith(begin))) return at
  }
  return text.length
}

const isBoundary = (text: string, at: number): boolean =>
  !/[A-Za-z0-9_]/.test(text.charAt(at - 1)) || /\\[nrt]/.test(text.slice(Math.max(0, at - 2), at))

function blockStart(text: string): number {
  const last = text.lastIndexOf(frame)
  const end = last === -1 ? null : /-----END [A-Z0-9 ]{0,80}-----/.exec(text.slice(last))
  if (last !== -1 && end === null) return last
  // The dashes that end one block do not begin the next.
  const after = end === null ? 0 : last + end.index + end[0].length
  for (let length = Math.min(frame.length - 1, text.length - after); length > 0; length--)
    if (text.endsWith(frame.slice(0, length))) return text.length - length
  return text.length
}
