import { hole } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { isClearAwk } from './awk.ts'
import { readInline } from './inline.ts'
import { isClearPerl } from './perl.ts'
import { isClearSed } from './sed.ts'
import { sqlFindings } from './sql.ts'

/** What can be told of a program that is written inside a command. Code in files is not looked at. */
export interface CodeReport {
  findings: Finding[]
  /** Files that it opens, and strings in it that look like paths outside. */
  reads: string[]
  paths: string[]
  /** It shows the environment. */
  secret: boolean
}

const maxQuoted = 300
const quotedPath = /["'`]((?:\/|~\/|\.\.\/)[^"'`\s]{0,300})["'`]/g

/** Without one name behind it, it is all of them. */
const environments: readonly [what: RegExp, one: RegExp][] = [
  [/process\.env\b/g, /^\s{0,4}(?:\.|\[)/],
  [/os\.environ\b/g, /^\s{0,4}(?:\[|\.get\b|\.setdefault\b)/],
  [/\bBun\.env\b/g, /^\s{0,4}(?:\.|\[)/],
  [/\bDeno\.env\.toObject\b/g, /^$./],
  [/%ENV\b/g, /^$./],
  [/\bENV\b/g, /^\s{0,4}(?:\[|\.fetch\b)/],
  [/\$_(?:ENV|SERVER)\b/g, /^\s{0,4}\[/],
  [/getenv\(/g, /^\s{0,4}[^)\s]/],
]

/** `const { env } = process`, `process["env"]`, `p.env` */
const takesEnvironment = (text: string): boolean =>
  /\bprocess\b/.test(text) && /\benv\b/.test(text.replaceAll(/\bprocess\.env\b/g, ''))

const showsEnvironment = (text: string): boolean =>
  takesEnvironment(text) ||
  environments.some(([what, one]) =>
    [...text.matchAll(what)].some(
      (found) => !one.test(text.slice(found.index + found[0].length).slice(0, 20)),
    ),
  )

export function codeFindings(program: string, text: string): CodeReport {
  const report: CodeReport = { findings: [], reads: [], paths: pathsIn(text), secret: false }
  if (text.includes(hole)) {
    const secret = showsEnvironment(text)
    return {
      ...report,
      secret,
      findings: [ambiguous(`Part of the code for "${program}" is known only when it runs`)],
    }
  }
  if (/sql|maria/.test(program)) return { ...report, paths: [], findings: sqlFindings(text) }
  if (program.endsWith('sed'))
    return { ...report, paths: [], findings: isClearSed(text) ? [] : [unclear('sed')] }
  if (program.endsWith('awk')) {
    const all = /\bENVIRON\b/.test(text) && !/\bENVIRON\s{0,4}\[/.test(text)
    return { ...report, findings: isClearAwk(text) ? [] : [unclear('awk')], secret: all }
  }
  const secret = showsEnvironment(text)
  if (program.startsWith('perl'))
    return { ...report, secret, findings: isClearPerl(text) ? [] : [unclear('perl')] }
  const isPython = /^(?:python|pypy)/.test(program)
  const { isClear, reads } = readInline(text, isPython ? 'python' : 'javascript')
  const known = isClear && (isPython || /^(?:node|bun|tsx|ts-node|deno)/.test(program))
  return { ...report, reads, secret, findings: known ? [] : [unclear(program)] }
}

const unclear = (program: string): Finding =>
  ambiguous(`It cannot be told what the code for "${program}" does`)

const pathsIn = (text: string): string[] =>
  [...text.matchAll(quotedPath)].map(([, path]) => (path ?? '').slice(0, maxQuoted))
