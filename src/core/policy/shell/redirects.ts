import type { HereDoc, Redirection } from 'unbash'
import { hostOf, unknownHost } from '../matching/hosts.ts'
import { isGitFile } from '../matching/paths.ts'
import { type Arg, argOf, argsOf, isKnown, type Surroundings } from './words/arg.ts'
import { isSecretVariable } from './words/assignments.ts'
import { ambiguous, destructive, type Finding, type Stdin } from './words/finding.ts'
import { locate } from './words/locate.ts'
import { asFile } from './words/operands.ts'
import { operatorAt } from './words/parse.ts'
import { isBlockDevice } from './programs/risks.ts'
import type { SegmentPath } from './words/segment.ts'

export interface Redirects {
  paths: SegmentPath[]
  hosts: string[]
  findings: Finding[]
  /** null: none of them is about standard input. */
  stdin: Stdin | null
}

interface Where {
  around: Surroundings
  isInside: (path: string) => boolean
  bodies: ReadonlyMap<number, string>
}

export function readRedirects(redirections: readonly Redirection[], where: Where): Redirects {
  const result: Redirects = { paths: [], hosts: [], findings: [], stdin: null }
  for (const redirection of redirections) {
    // `3<<<x` is not what the command reads.
    const { descriptor } = redirection
    const isInput = descriptor === undefined || ('value' in descriptor && descriptor.value === 0)
    if (redirection.type === 'HereDoc') {
      if (isInput) result.stdin = documentOf(redirection, where)
      const secret = variablesIn(redirection).find(isSecretVariable)
      if (secret) result.findings.push(ambiguous(`"${secret}" is handed on`))
    } else if (redirection.target) {
      if (redirection.type === 'HereString')
        readText(result, argOf(redirection.target, where.around), where, isInput)
      else
        for (const target of argsOf(redirection.target, where.around).flat())
          readTarget(result, redirection.operator, target, where, isInput)
    }
  }
  return result
}

function readText(
  result: Redirects,
  target: Arg,
  { around, isInside }: Where,
  isInput: boolean,
): void {
  const secret = target.variables.find(isSecretVariable)
  if (secret) result.findings.push(ambiguous(`"${secret}" is handed on`))
  if (isInput)
    result.stdin = isKnown(target) ? { kind: 'text', text: target.value } : { kind: 'unknown' }
  const outside = locate(target, around, isInside).paths.find((path) => !isInside(path))
  if (outside) result.findings.push(ambiguous(`A path outside is handed on: ${outside}`))
}

/** Those that the shell puts into the text. */
const variablesIn = ({ body, delimiter }: HereDoc): string[] =>
  delimiter?.quoted
    ? []
    : [...body.text.matchAll(/\$\{?[!#]?([A-Za-z_]\w*)/g)].map(([, name = '']) => name)

function documentOf(document: HereDoc, { bodies }: Where): Stdin {
  const taken = bodies.get(operatorAt(document))
  if (taken !== undefined) return { kind: 'text', text: taken }
  const { text, parts } = document.body
  const literal = document.delimiter?.quoted || !parts?.some(({ type }) => type !== 'Literal')
  return literal && document.closing ? { kind: 'text', text } : { kind: 'unknown' }
}

function readTarget(
  result: Redirects,
  operator: string,
  target: Arg,
  where: Where,
  isInput: boolean,
): void {
  // `<>` does both.
  const reads = operator.startsWith('<')
  const writes = !reads || operator === '<>'
  if (reads && isInput) result.stdin = { kind: 'unknown' }
  if (operator.endsWith('&') && /^(?:\d+-?|-)$/.test(target.value)) return
  const remote = /^\/dev\/(?:tcp|udp)\/([^/]*)/.exec(target.value)
  if (remote) return void result.hosts.push(hostOf(remote[1] ?? '') ?? unknownHost)
  const { paths, findings, any } = locate(asFile(target), where.around, where.isInside)
  result.findings.push(...findings)
  if (any) result.paths.push({ path: '/', read: reads, kind: 'any' })
  for (const path of paths) {
    if (writes && isGitFile(path)) result.findings.push(ambiguous("It changes git's own files"))
    if (isBlockDevice(path)) result.findings.push(destructive('It writes to a device'))
    result.paths.push({ path, read: reads, ...(target.globs ? { kind: 'pattern' as const } : {}) })
  }
}
