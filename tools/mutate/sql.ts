/** One change of an SQL text. `at` is where it begins, counted from the start of the text. */
export interface SqlEdit {
  at: number
  was: string
  now: string
}

/** Also a piece of a statement, such as a condition that several statements share. */
export const isSql = (text: string): boolean =>
  /^\s*(select|insert|update|delete|with|where|from|and|order by|on conflict|returning)\s/i.test(
    text,
  )

interface Token {
  text: string
  at: number
  depth: number
}

/** Words, signs and brackets. What is in quotes, and what is put in by `${…}`, is one token. */
function tokensOf(sql: string): Token[] {
  const pattern = /\$\{(?:[^{}]|\{[^{}]*\})*\}|'(?:[^']|'')*'|[\w.]+|<>|!=|<=|>=|\|\||->>?|[^\s\w]/g
  let depth = 0
  return [...sql.matchAll(pattern)].map(({ 0: text, index: at }) => {
    if (text === ')') depth--
    const token = { text: text.toLowerCase(), at, depth }
    if (text === '(') depth++
    return token
  })
}

const endsCondition = new Set(
  'and or order limit group having returning union on when then else end set where from values do'.split(
    ' ',
  ),
)

/**
 * Each edit leaves every `?` in its place: a statement that has one too many or too few fails at once, and shows nothing
 * about the tests.
 */
export function sqlEdits(sql: string): SqlEdit[] {
  const tokens = tokensOf(sql)
  const found = tokens.flatMap((_, index) => [
    ...conditionEdits(sql, tokens, index),
    ...assignmentEdits(sql, tokens, index),
    ...orderEdits(sql, tokens, index),
    ...wordEdits(sql, tokens, index),
  ])
  return found.filter(({ was, now }) => was !== now)
}

/** From the token after `index` on, as far as the tokens belong together. */
function spanAfter(
  sql: string,
  tokens: readonly Token[],
  index: number,
  ends: (token: Token) => boolean,
) {
  const first = tokens[index + 1]
  if (!first) return null
  const depth = tokens[index]?.depth ?? 0
  let last = index
  for (let next = index + 1; next < tokens.length; next++) {
    const token = tokens[next] as Token
    if (token.depth < depth || (token.depth === depth && ends(token))) break
    last = next
  }
  if (last === index) return null
  const end = (tokens[last] as Token).at + (tokens[last] as Token).text.length
  return { at: first.at, was: sql.slice(first.at, end), next: tokens[last + 1] }
}

/** `where a = ? and b is null`: each part is left out in turn, and each sign is turned round. */
function conditionEdits(sql: string, tokens: readonly Token[], index: number): SqlEdit[] {
  const word = tokens[index]?.text ?? ''
  if (!['where', 'and', 'or', 'on', 'when'].includes(word)) return []
  if (
    word === 'and' &&
    tokens.slice(Math.max(0, index - 4), index).some(({ text }) => text === 'between')
  )
    return []
  if (word === 'on' && tokens[index + 1]?.text === 'conflict') return []
  const span = spanAfter(sql, tokens, index, ({ text }) => endsCondition.has(text))
  if (!span || span.was.includes('${')) return []
  const { at, was, next } = span
  const isOr = word === 'or' || (next?.text === 'or' && next.depth === tokens[index]?.depth)
  return [
    { at, was, now: isOr ? `(${was} and 0)` : `(${was} or 1)` },
    ...signEdits(was).map((edit) => ({ ...edit, at: at + edit.at })),
  ]
}

const signs: readonly (readonly [RegExp, string])[] = [
  [/(?<=[\s\w)?])\s=\s/, ' <> '],
  [/\s(<>|!=)\s/, ' = '],
  [/\s<\s/, ' <= '],
  [/\s<=\s/, ' < '],
  [/\s>\s/, ' >= '],
  [/\s>=\s/, ' > '],
  [/\bis null\b/, 'is not null'],
  [/\bis not null\b/, 'is null'],
  [/\bnot in \(/, 'in ('],
  [/(?<!not )\bin \(/, 'not in ('],
  [/\bnot exists\b/, 'exists'],
  [/(?<!not )\bexists\b/, 'not exists'],
]

/** Only the first of each: what is nested deeper has its own condition. */
function signEdits(condition: string): SqlEdit[] {
  const flat = condition.replace(/\(.*\bwhere\b.*\)/s, (inner) => ' '.repeat(inner.length))
  return signs.flatMap(([pattern, now]) => {
    const found = pattern.exec(flat)
    return found ? [{ at: found.index, was: found[0], now }] : []
  })
}

/** `set a = ?, b = b + 1`: each column keeps its value in turn. */
function assignmentEdits(sql: string, tokens: readonly Token[], index: number): SqlEdit[] {
  const word = tokens[index]
  if (!word || (word.text !== 'set' && word.text !== ',')) return []
  if (word.text === ',' && !isInSet(tokens, index)) return []
  const span = spanAfter(
    sql,
    tokens,
    index,
    ({ text }) => text === ',' || text === 'where' || text === 'returning',
  )
  const [, column, value] = /^(\w+)\s*=\s*(.+)$/s.exec(span?.was ?? '') ?? []
  if (!span || column === undefined || value === undefined || value.includes('${')) return []
  return [{ at: span.at, was: span.was, now: `${column} = iif(1, ${column}, ${value})` }]
}

function isInSet(tokens: readonly Token[], index: number): boolean {
  const depth = tokens[index]?.depth
  const before = tokens
    .slice(0, index)
    .findLast(
      (token) =>
        token.depth === depth && /^(set|where|values|select|from|by|returning)$/.test(token.text),
    )
  return before?.text === 'set'
}

function orderEdits(sql: string, tokens: readonly Token[], index: number): SqlEdit[] {
  if (tokens[index]?.text !== 'order' || tokens[index + 1]?.text !== 'by') return []
  const span = spanAfter(sql, tokens, index, ({ text }) => text === 'limit')
  if (!span || /[?$]/.test(span.was)) return []
  const at = tokens[index]?.at ?? 0
  return [{ at, was: sql.slice(at, span.at + span.was.length), now: '' }]
}

const words: readonly (readonly [RegExp, string])[] = [
  [/^\+ 1\b/, '+ 0'],
  [/^- 1\b/, '- 0'],
  [/^limit \?/i, 'limit ? + 1000'],
  // Who asks for one reads the first: without the limit it is the same.
  [/^limit (?!1\b)\d+/i, ''],
  [/^desc\b/i, ''],
  [/^max\(/i, 'min('],
  [/^min\(/i, 'max('],
  [/^or ignore\b/i, ''],
  [/^distinct\b/i, ''],
]

function wordEdits(sql: string, tokens: readonly Token[], index: number): SqlEdit[] {
  const at = tokens[index]?.at ?? 0
  return words.flatMap(([pattern, now]) => {
    const found = pattern.exec(sql.slice(at))
    return found ? [{ at, was: found[0], now }] : []
  })
}
