/**
 * Reads code that is written inside a command. It is clear if every word of it is known to do no harm, as in
 * `node -e "console.log(require('./package.json').version)"`; one word that is not known, a name that is put together, or
 * an escape in a string, and it is not. Reads each character once.
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
const openers =
  /\b(?:open|readFileSync|require|load|existsSync|statSync|readdirSync|listdir|exists|isfile|isdir)\b/
const modules = /^(?:node:)?(?:fs|path|os|util|assert|url|crypto)$|^\.{1,2}\/[\w./-]+\.json$/
const forbidden = /constructor|prototype|__|\\[xuUN0-7]/

interface Token {
  text: string
  before: string
}

export function readInline(code: string): Inline {
  const split = splitStrings(code)
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
        !/(?:require|import|from)\s{0,4}\(?$/.test(before) || modules.test(text),
    ) &&
    !/[)\]]\s{0,4}\(/.test(rest) &&
    subscriptsAreFixed(rest) &&
    !(opens && /[+%]|\b(?:join|format|argv|env|replace|concat|decode|b64decode|chr)\b/.test(rest))
  return { isClear, reads }
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

/** Strings are taken out, each with the code before it; null: one of them does not end, or has code in it. */
function splitStrings(code: string): { rest: string; strings: Token[] } | null {
  const strings: Token[] = []
  let rest = ''
  for (let at = 0; at < code.length; at += 1) {
    const quote = code[at] ?? ''
    if (!/["'`]/.test(quote)) {
      rest += quote
      continue
    }
    const end = endOf(code, at)
    if (end < 0) return null
    const text = code.slice(at + 1, end)
    const hasCode =
      (quote === '`' && text.includes('${')) ||
      (/[fFrRbBuU]$/.test(code.slice(Math.max(0, at - 2), at)) &&
        /(?:^|\W)[fF][rR]?$|(?:^|\W)[rR][fF]$/.test(code.slice(Math.max(0, at - 3), at)) &&
        text.includes('{'))
    if (hasCode) return null
    strings.push({ text, before: code.slice(Math.max(0, at - 20), at).trimEnd() })
    rest += '""'
    at = end
  }
  return { rest, strings }
}

function endOf(code: string, from: number): number {
  for (let at = from + 1; at < code.length; at += 1) {
    if (code[at] === '\\') at += 1
    else if (code[at] === code[from]) return at
  }
  return -1
}
