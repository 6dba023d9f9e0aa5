/**
 * Reads code that is written inside a command. It is clear if every word of it is known to do no harm, as in
 * `node -e "console.log(require('./package.json').version)"`; one word that is not known, a name that is put together, an
 * escape in a string, a function that goes by another name, and it is not. Where it cannot be told what is a string (a
 * slash or a comment with a quote behind it), nothing of it is clear. Reads each character once.
 */
export interface Inline {
  isClear: boolean
  /** Files that it opens. */
  reads: string[]
}

const known = new Set(
  `console log error info warn table dir print printf puts echo write stdout json JSON stringify parse load loads dumps
  sys version versions version_info platform process argv cwd exit env HOME PATH NODE_ENV PWD os path exists isfile isdir
  listdir getcwd existsSync statSync readdirSync size basename dirname extname resolve import from as in of for if else
  elif while not and or is None True False true false null undefined NaN const let var return function lambda def len
  range sum min max sorted sort map filter reduce forEach keys values entries items get has length Object Array Math
  floor ceil round abs pow sqrt random Number String Boolean parseInt parseFloat int str float list dict set Set Map
  tuple bool type typeof isArray isinstance toString toFixed split strip trim replace startswith endswith startsWith
  endsWith includes indexOf lower upper toLowerCase toUpperCase join format indent ensure_ascii sort_keys read readlines
  splitlines open with readFileSync require fs utf8 encoding Date now toISOString time datetime today strftime isoformat
  math re collections Counter most_common count append push slice concat reverse uuid uuid4 randomUUID crypto randomBytes
  pprint machine python_version executable new enumerate zip any all data line lines row rows name key value val item obj
  res result file text pkg config out num total idx acc cur prev scripts dependencies devDependencies engines maxsize
  maxunicode hex ord chr repr padStart padEnd default utf base64 b64encode b64decode encode decode Buffer sep end flush
  util inspect assert equal ok strictEqual deepEqual url URL hostname href main pass break continue some every find flat
  message node v8 arch cpus totalmem url exports type module`
    .split(/\s+/)
    .filter((word) => word !== ''),
)
/** Words for values: what is called by one of these was given that name here. */
const values = new Set(
  `key val item obj res result file text pkg config out num total idx acc cur prev data line lines row rows name value fs os
  path util url crypto module process console self`.split(/\s+/),
)
const openers =
  /\b(?:open|readFileSync|require|load|existsSync|statSync|readdirSync|listdir|exists|isfile|isdir)\b/
/** With a path that stands there. `load` takes a file that is open. */
const openedAsWritten =
  /\b(?:open|readFileSync|existsSync|statSync|readdirSync|listdir|exists|isfile|isdir)\b(?!\s{0,4}\(\s{0,4}(?:""|\d{0,3})\s{0,4}[,)])/
const modules = /^(?:node:)?(?:fs|path|os|util|assert|url|crypto)$|^\.{1,2}\/[\w./-]+\.json$/
const loadedAsWritten =
  /\brequire\b(?!(?:\.resolve)?\s{0,4}\(\s{0,4}""\s{0,4}\))|\bimport\s{0,40}\((?!\s{0,4}""\s{0,4}\))/
const forbidden = /constructor|prototype|__|\\[xuUN0-7]/

interface Token {
  text: string
  before: string
  after: string
}

export function readInline(code: string, language: 'python' | 'javascript'): Inline {
  const split = splitStrings(code, language)
  if (split === null) return { isClear: false, reads: [] }
  const { rest, strings } = split
  const opens = openers.test(rest)
  const reads = opens
    ? strings.map(({ text }) => text).filter((text) => /^[^\s()<>|]{1,200}$/.test(text))
    : []
  const words = rest.match(/[A-Za-z_$][\w$]*/g) ?? []
  const isClear =
    words.every((word) => word.length === 1 || known.has(word)) &&
    strings.every(({ text }) => !forbidden.test(text)) &&
    strings.every(
      ({ text, before }) =>
        !/(?:require|import|from|resolve)\s{0,20}\(?$/.test(before) || modules.test(text),
    ) &&
    !loadedAsWritten.test(rest) &&
    !/[)\]]\s{0,4}\(/.test(rest) &&
    callsByKnownNames(rest) &&
    subscriptsAreFixed(rest) &&
    (language === 'python' ? !renamesInPython(rest) : !takesFunctions(rest, strings)) &&
    !(opens && openedAsWritten.test(rest)) &&
    !(opens && /[+%]|\b(?:join|format|argv|env|replace|concat|decode|b64decode|chr)\b/.test(rest))
  return { isClear, reads }
}

/** `let f = …; f(x)`: which function that is cannot be told. */
const callsByKnownNames = (rest: string): boolean =>
  [...rest.matchAll(/(?<![\w$])([A-Za-z_$][\w$]{0,60})\s{0,4}\(/g)].every(
    ([, word = '']) => word.length > 1 && !values.has(word),
  )

/** `os.replace` moves files; of a text it is harmless. */
const renamesInPython = (rest: string): boolean => /\bos\b/.test(rest) && /\breplace\b/.test(rest)

/** Functions of a module by a name that is a text, or all of them: `fs["rmSync"]`, `{"rmSync": f} = fs`, `Object.values(fs)`. */
function takesFunctions(rest: string, strings: readonly Token[]): boolean {
  const hasModules =
    /\b(?:fs|os|path|util|url|crypto|module|process|v8)\b/.test(rest) ||
    strings.some(({ text }) => modules.test(text) && !text.endsWith('.json'))
  if (!hasModules) return false
  return (
    /\b(?:values|entries)\b|\]\s{0,4}:/.test(rest) ||
    strings.some(
      ({ text, after }) =>
        /[\]:]/.test(after) && /^[A-Za-z_$][\w$]*$/.test(text) && !known.has(text),
    )
  )
}

/** A name in brackets after a value would be looked up when it runs. */
function subscriptsAreFixed(rest: string): boolean {
  for (let at = rest.indexOf('['); at >= 0; at = rest.indexOf('[', at + 1)) {
    if (!/[\w)\]"]/.test(rest[at - 1] ?? '')) continue
    const end = rest.indexOf(']', at)
    if (
      end < 0 ||
      end - at > 40 ||
      !/^(?:""|-?\d{0,6}:?-?\d{0,6})$/.test(rest.slice(at + 1, end).trim())
    )
      return false
  }
  return true
}

/** Strings are taken out, each with the code beside it; null: one of them does not end, or has code in it. */
function splitStrings(
  code: string,
  language: 'python' | 'javascript',
): { rest: string; strings: Token[] } | null {
  const strings: Token[] = []
  const lastQuote = Math.max(...Array.from(`'"\``, (quote) => code.lastIndexOf(quote)))
  let rest = ''
  for (let at = 0; at < code.length; at += 1) {
    const quote = code[at] ?? ''
    // A comment, or a pattern: a quote in it begins no string.
    const isUnsure = quote === '#' || (language === 'javascript' && /[/<]/.test(quote))
    if (isUnsure && at < lastQuote && (quote !== '<' || code.startsWith('<!--', at))) return null
    if (!/["'`]/.test(quote)) {
      rest += quote
      continue
    }
    const end = endOf(code, at)
    const text = code.slice(at + 1, end)
    const isLong = text === '' && code[end + 1] === quote
    const isBroken = quote !== '`' && text.includes('\n')
    if (end < 0 || isLong || isBroken || (quote === '`' && language === 'python')) return null
    const hasCode =
      (quote === '`' && text.includes('${')) ||
      (/(?:^|\W)[fFtT][rR]?$|(?:^|\W)[rR][fFtT]$/.test(code.slice(Math.max(0, at - 3), at)) &&
        text.includes('{'))
    if (hasCode) return null
    const before = skipBlanks(code, at - 1, -1)
    strings.push({
      text,
      before: code.slice(Math.max(0, before - 40), before + 1),
      after: code[skipBlanks(code, end + 1, 1)] ?? '',
    })
    rest += '""'
    at = end
  }
  return { rest, strings }
}

/** However many there are: the place of the next character that is none. */
function skipBlanks(code: string, from: number, step: 1 | -1): number {
  let at = from
  while (/\s/.test(code[at] ?? '')) at += step
  return at
}

function endOf(code: string, from: number): number {
  for (let at = from + 1; at < code.length; at += 1) {
    if (code[at] === '\\') at += 1
    else if (code[at] === code[from]) return at
  }
  return -1
}
