import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../../../../local/binaries.ts'
import { maxPolicyBytes } from '../../../../src/contract/policy.ts'
import { parsePolicyDocument } from '../../../../src/core/policy/document.ts'
import { decideCommand } from '../requests.ts'

interface Found {
  where: string
  regex: RegExp
}

/** Every literal of a source. A slash begins one unless a value stands before it. */
function regularExpressions(file: string): Found[] {
  const text = readFileSync(join(root, file), 'utf8')
  const found: Found[] = []
  let before = ''
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? ''
    if (text.startsWith('//', at)) at = text.indexOf('\n', at)
    else if (text.startsWith('/*', at)) at = text.indexOf('*/', at) + 1
    else if (/["'`]/.test(char)) {
      at = endOf(text, at, char)
      before = char
    } else if (char === '/' && (!/[\w)\]"'`]/.test(before) || returns(text, at))) {
      const end = endOf(text, at, char)
      const flags = /^[a-z]*/.exec(text.slice(end + 1, end + 8))?.[0] ?? ''
      const line = text.slice(0, at).split('\n').length
      found.push({ where: `${file}:${line}`, regex: new RegExp(text.slice(at + 1, end), flags) })
      at = end + flags.length
      before = '/'
    } else if (!/\s/.test(char)) before = char
  }
  return found
}

const returns = (text: string, at: number): boolean => /\breturn $/.test(text.slice(at - 10, at))

function endOf(text: string, from: number, closing: string): number {
  let inClass = false
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (closing === '/' && text[at] === '[') inClass = true
    else if (closing === '/' && text[at] === ']') inClass = false
    else if (text[at] === closing && !inClass) return at
  }
  throw new Error(`A text does not end: ${text.slice(from, from + 40)}`)
}

const files = globSync(
  [
    'src/core/policy/**/*.ts',
    'src/core/redaction/**/*.ts',
    'src/core/documents.ts',
    'src/contract/**/*.ts',
  ],
  { cwd: root },
)
const all = files.flatMap(regularExpressions)

/** What repeats in made-up texts: signs, and whatever the expression itself names. */
const signs = [
  ...Array.from('a0 \t\n/.-"\'[]{}()$`\\=:@*?,;_~!#%&+<>|^A\u00e9'),
  'a.',
  'a-',
  'a/',
  '../',
  'a b ',
  '=a',
  '${',
  '$(',
  '[a',
  '{a',
  "'a",
  '"/',
]
const unitsOf = ({ source }: RegExp): string[] => {
  const words = source.replaceAll(/\\[bdswDSWB]|\(\?[:=!<]+/g, ' ').split(/[^\w%/.:@-]+/)
  return [
    ...new Set([
      ...signs,
      ...words.filter((word) => word.length > 1 && word.length < 30),
      ...words.map((word) => `${word} `),
    ]),
  ]
}
const firstOf = (regex: RegExp): string =>
  /^\^?((?:[\w:/%@-]|\\[/.$])+)/.exec(regex.source)?.[1]?.replaceAll('\\', '') ?? ''

/** Of the processor for this thread: what others do meanwhile does not count. */
function millisecondsOf(run: () => void, times: number): number {
  let best = Infinity
  for (let time = 0; time < times; time += 1) {
    const before = process.threadCpuUsage()
    run()
    const { user, system } = process.threadCpuUsage(before)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

/** Without a try that fails early, the time of a text grows with its length: eight times as long, at most thrice eight. */
const noticeableMs = 8
const growth = (
  make: (length: number) => string,
  use: (text: string) => void,
  length: number,
): number => {
  const [short, long] = [make(length), make(length * 8)]
  if (millisecondsOf(() => use(long), 1) < noticeableMs) return 1
  return (
    millisecondsOf(() => use(long), 4) /
    Math.max(
      millisecondsOf(() => use(short), 8),
      0.05,
    )
  )
}

describe('[POL36] time grows with the length', () => {
  test('the sources have regular expressions', () => {
    expect(all.length).toBeGreaterThan(150)
  })

  test('of no regular expression it grows faster than the text', () => {
    const slow = all.flatMap(({ where, regex }) => {
      const use = (text: string) =>
        void (regex.global ? text.replaceAll(regex, '') : regex.test(text))
      return unitsOf(regex).flatMap((unit) =>
        [...new Set(['', firstOf(regex)])].flatMap((start) => {
          const make = (length: number) =>
            // What cannot match at its end is tried in every way.
            `${start}${unit.repeat(Math.ceil(length / unit.length))}\u0001`
          const times = growth(make, use, 2000)
          return times > 24 ? [`${where} on ${JSON.stringify(unit)}: ${times.toFixed(0)}`] : []
        }),
      )
    })
    expect([...new Set(slow)]).toEqual([])
  })

  const commands: [name: string, make: (length: number) => string][] = [
    ['code that opens', (n) => `perl -e '${'open '.repeat(n / 5)}'`],
    ['quotes', (n) => '"'.repeat(n)],
    ['words', (n) => `cat ${'a '.repeat(n / 2)}`],
    ['a loop', (n) => `for f in ${'a '.repeat(n / 2)}; do cat $f; done`],
    ['strings in code', (n) => `node -e '${'"'.repeat(n)}'`],
    ['paths in code', (n) => `node -e '${'"/'.repeat(n / 2)}'`],
    ['assignments', (n) => `export ${'A=b '.repeat(n / 4)}`],
    ['variables', (n) => Array.from({ length: n / 10 }, (_, i) => `v${i}=$v${i - 1}`).join(';')],
    ['an environment', (n) => `env ${'A=b '.repeat(n / 4)}ls`],
    ['pipes', (n) => `${'ls|'.repeat(n / 3)}ls`],
    ['braces', (n) => `echo ${'{a,b}'.repeat(n / 5)}`],
    ['open braces', (n) => `echo ${'{a,'.repeat(n / 3)}`],
    ['patterns', (n) => `cat ${'.*/'.repeat(n / 3)}`],
    ['expansions', (n) => `echo ${'${x:-'.repeat(n / 5)}`],
    ['sed', (n) => `sed '${'s/a/b/;'.repeat(n / 7)}'`],
    ['awk', (n) => `awk '${'/'.repeat(n)}'`],
    ['commands in arguments', (n) => `bun exec ${'deno exec bun exec '.repeat(n / 19)}`],
    // Short enough to be read: more than 1000 words are not.
    ['commands behind dashes', () => `tox ${'-- sqlite3 '.repeat(450)}`],
    ['modules', () => `python3 ${'-m pytest -- python3 '.repeat(150)}`],
    ['wrappers', () => 'npx -c uv run bun x '.repeat(150)],
    ['functions', () => `${'f() { ( '.repeat(11)}ls${' ); }'.repeat(11)}`],
    ['finds', () => `find . ${'-exec find . '.repeat(300)}`],
    ['texts of tools', (n) => `npm run a --x="${'://a '.repeat(n / 5)}"`],
    ['names of variables', (n) => `read ${'PIP_A '.repeat(n / 6)}`],
    ['brackets in patterns', (n) => `sed 's/${'[[:a:]'.repeat(n / 6)}/x/'`],
    ['names in SQL', (n) => `sqlite3 a.db "${"['".repeat(n / 2)}"`],
    ['dollars in SQL', (n) => `psql -c '${'$a'.repeat(n / 2)}'`],
    ['blanks in code', (n) => `node -e '${'"a"      '.repeat(n / 9)}'`],
    ['calls in code', (n) => `node -e '${'a('.repeat(n / 2)}'`],
    ['slashes in awk', (n) => `awk '${'a/'.repeat(n / 2)}'`],
    ['equal signs', (n) => `tsc --a=${'a='.repeat(n / 2)}/x`],
    ['here-documents', (n) => '<<A'.repeat(n / 3)],
    ['here-documents that end', (n) => 'a<<A\nA\n'.repeat(n / 7)],
    ['here-documents in one command', (n) => `a${' <<A'.repeat(n / 6)}${'\nA'.repeat(n / 6)}`],
    ['SQL', (n) => `psql -c "${'select 1;'.repeat(n / 9)}"`],
  ]
  /** Much smaller than what a square would cost, and far from what a busy machine does to a time. */
  test.each(commands)(
    'of a command with %s: the longest costs what some small ones do',
    (_, make) => {
      const small = () => {
        for (let time = 0; time < 200; time += 1) decideCommand('npm test && git status | head -5')
      }
      const long = make(64_000)
      const times = millisecondsOf(() => decideCommand(long), 3) / millisecondsOf(small, 3)
      expect(times).toBeLessThan(100)
    },
  )

  test('a document of the greatest size costs no more than a hundred small ones, whatever is in it', () => {
    const small = millisecondsOf(
      () => parsePolicyDocument(`name: x\nrules:\n${rule.repeat(20)}`),
      10,
    )
    for (const sign of [
      '"',
      ',',
      '[',
      ']',
      '{',
      ': ',
      '- ',
      "'",
      '&a ',
      '! ',
      '*a ',
      '\n',
      'a: "\n',
      '"" ',
      '%a\n',
      '? ',
      '{a: [',
      '|',
    ])
      for (const text of [
        sign.repeat(maxPolicyBytes / sign.length),
        `a: [${sign.repeat(100_000)}]`,
      ]) {
        const large = millisecondsOf(() => parsePolicyDocument(text.slice(0, maxPolicyBytes)), 1)
        expect([sign, large / Math.max(small, 1) < 100]).toEqual([sign, true])
      }
  })
})

const rule = '  - { id: a, match: { category: shell, command: [ls, "cat *"] }, decision: allow }\n'

test('[POL36] a document with too many signs is an error that says so, and a large plain one is read', () => {
  expect(parsePolicyDocument('"'.repeat(40_000))).toEqual({
    errors: [{ line: 1, column: 1, path: '', message: expect.stringContaining('at most 30000') }],
  })
  const numbered = Array.from({ length: 490 }, (_, n) => rule.replace('id: a', `id: r${n}`)).join(
    '',
  )
  const parsed = parsePolicyDocument(`name: team\nrules:\n${numbered}`)
  expect('policy' in parsed && parsed.policy.rules.length).toBe(490)
})
