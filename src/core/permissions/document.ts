import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type YAMLMap,
} from 'yaml'
import type { z } from 'zod'
import {
  maxPolicyBytes,
  PolicyDocument,
  type PolicyError,
  type RuleApproval,
} from '../../contract/policy.ts'
import { reservedPolicyNames } from './sandbox-default.ts'

export type ParsedPolicy = { policy: PolicyDocument } | { errors: PolicyError[] }

const maxErrors = 50
const maxMessage = 300
const tooDeep = 'Must not be nested so deeply'

/** Repeated keys are found below: the parser compares each with each. */
const options = {
  uniqueKeys: false,
  prettyErrors: false,
  version: '1.2',
  schema: 'core',
  logLevel: 'error',
} as const

/** A policy document as a person wrote it. JSON is YAML too, but whoever says "json" gets JSON's own strictness. */
export function parsePolicy(text: string, format: 'yaml' | 'json' = 'yaml'): ParsedPolicy {
  if (byteLength(text) > maxPolicyBytes)
    return { errors: [at(1, 1, '', `Must be at most ${maxPolicyBytes / 1024} KiB`)] }
  const lines = new LineCounter()
  try {
    const document = parseDocument(text, { ...options, lineCounter: lines })
    return readDocument(document, text, format, lines)
  } catch {
    // The parser goes as deep as the text.
    return { errors: [at(1, 1, '', tooDeep)] }
  }
}

const at = (line: number, column: number, path: string, message: string): PolicyError => ({
  line,
  column,
  path: path.slice(0, maxMessage),
  message: message.slice(0, maxMessage),
})

/** UTF-8, without an encoder. */
function byteLength(text: string): number {
  let bytes = 0
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x1_0000 ? 3 : 4
  }
  return bytes
}

function readDocument(
  document: Document,
  text: string,
  format: 'yaml' | 'json',
  lines: LineCounter,
): ParsedPolicy {
  const errors = [...syntaxErrors(document, lines), ...structureErrors(document, lines)]
  if (errors.length === 0 && format === 'json') errors.push(...jsonErrors(text, lines))
  if (errors.length > 0) return { errors: errors.slice(0, maxErrors) }
  const parsed = PolicyDocument.safeParse(document.toJS())
  const found = parsed.success
    ? meaningErrors(parsed.data, (path, message) => placed(document, lines, path, message))
    : parsed.error.issues
        .slice(0, maxErrors)
        .flatMap((issue) => issueErrors(issue, document, lines))
  return parsed.success && found.length === 0
    ? { policy: parsed.data }
    : { errors: found.sort((a, b) => a.line - b.line).slice(0, maxErrors) }
}

function syntaxErrors({ errors, warnings }: Document, lines: LineCounter): PolicyError[] {
  // A warning is about a tag or a directive that nobody here understands.
  return [...errors, ...warnings].slice(0, maxErrors).map(({ pos, message }) => {
    const { line, col } = lines.linePos(pos[0])
    return at(line, col, '', message.startsWith('Maximum call stack') ? tooDeep : message)
  })
}

/** Anchors can make a small text a huge document, and of two equal keys one would be lost. */
function structureErrors(document: Document, lines: LineCounter): PolicyError[] {
  const errors: PolicyError[] = []
  const refuse = (node: unknown, message: string) => {
    const { line, col } = lines.linePos(isNode(node) ? (node.range?.[0] ?? 0) : 0)
    errors.push(at(line, col, '', message))
  }
  visit(document, (_, node) => {
    if (errors.length >= maxErrors) return visit.BREAK
    if (isAlias(node) || (isNode(node) && 'anchor' in node && node.anchor))
      refuse(node, 'Anchors and aliases are not allowed')
    if (isMap(node))
      for (const repeated of repeatedKeys(node)) refuse(repeated, 'Keys must be unique')
    return undefined
  })
  return errors
}

function repeatedKeys({ items }: YAMLMap): unknown[] {
  const seen = new Set<string>()
  return items
    .map(({ key }) => key)
    .filter((key) => {
      const name = isScalar(key) ? String(key.value) : undefined
      const repeated = name !== undefined && seen.has(name)
      if (name !== undefined) seen.add(name)
      return repeated
    })
}

function jsonErrors(text: string, lines: LineCounter): PolicyError[] {
  try {
    JSON.parse(text)
    return []
  } catch (error) {
    const message = error instanceof Error ? error.message : 'Not JSON'
    const { line, col } = lines.linePos(Number(/position (\d+)/.exec(message)?.[1] ?? 0))
    return [at(line, col, '', message.replace(/ in JSON at position.*$/s, ''))]
  }
}

type Path = readonly PropertyKey[]

function issueErrors(
  issue: z.core.$ZodIssue,
  document: Document,
  lines: LineCounter,
): PolicyError[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys
      .slice(0, maxErrors)
      .map((key) => placed(document, lines, [...issue.path, key], 'There is no such field'))
  return [placed(document, lines, issue.path, issue.message)]
}

/** At the field itself; if it is missing, at what should have it. */
function placed(document: Document, lines: LineCounter, path: Path, message: string): PolicyError {
  const { line, col } = lines.linePos(offsetOf(document, path))
  return at(line, col, path.join('.'), message)
}

function offsetOf(document: Document, path: Path): number {
  let node: unknown = document.contents
  let offset = 0
  for (const key of path) {
    if (isNode(node)) offset = node.range?.[0] ?? offset
    if (isMap(node)) {
      const pair = node.items.find(
        (item) => isScalar(item.key) && String(item.key.value) === String(key),
      )
      if (!pair) return offset
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset
      node = pair.value
    } else {
      const item = itemOf(node, key)
      if (item === undefined) return offset
      node = item
      if (isNode(node)) offset = node.range?.[0] ?? offset
    }
  }
  return offset
}

const itemOf = (node: unknown, key: PropertyKey): unknown =>
  (node as { items?: unknown[] } | null)?.items?.[Number(key)]

type Report = (path: Path, message: string) => PolicyError

/** What a schema cannot say. */
function meaningErrors(policy: PolicyDocument, report: Report): PolicyError[] {
  const errors: PolicyError[] = []
  if (reservedPolicyNames.includes(policy.name))
    errors.push(report(['name'], `"${policy.name}" is built in`))
  errors.push(...termsErrors(policy, policy.approvals, ['approvals'], report))
  const ids = new Set<string>()
  for (const [index, { id, approval }] of policy.rules.entries()) {
    if (id !== undefined && ids.has(id))
      errors.push(report(['rules', index, 'id'], `There is already a rule "${id}"`))
    if (id !== undefined) ids.add(id)
    if (approval)
      errors.push(...termsErrors(policy, approval, ['rules', index, 'approval'], report))
  }
  return errors
}

function termsErrors(
  policy: PolicyDocument,
  own: RuleApproval,
  path: Path,
  report: Report,
): PolicyError[] {
  const errors: PolicyError[] = []
  const known = (name: string | undefined) =>
    name === undefined || Object.hasOwn(policy.groups, name)
  if (!known(own.group)) errors.push(report([...path, 'group'], `There is no group "${own.group}"`))
  if (!known(own.escalate?.group))
    errors.push(
      report([...path, 'escalate', 'group'], `There is no group "${own.escalate?.group}"`),
    )
  const group = own.group ?? policy.approvals.group
  const size = group === undefined ? Infinity : (policy.groups[group]?.length ?? Infinity)
  if ((own.quorum ?? policy.approvals.quorum ?? 1) > size)
    errors.push(
      report(
        [...path, own.quorum === undefined ? 'group' : 'quorum'],
        `The group "${group}" has only ${size} keys`,
      ),
    )
  const timeout = own.timeoutSeconds ?? policy.approvals.timeoutSeconds
  const escalate = own.escalate ?? policy.approvals.escalate
  if (escalate && escalate.afterSeconds >= timeout)
    errors.push(
      report(
        [...path, own.escalate ? 'escalate' : 'timeoutSeconds'],
        'It would escalate only after the deadline',
      ),
    )
  return errors
}
