import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  parseDocument as parseYaml,
  visit,
  type YAMLMap,
} from 'yaml'
import type { z } from 'zod'
import { byteLength } from '../contract/byte-length.ts'

/**
 * The one reader of documents that people write: a text of YAML or JSON becomes a value of a schema, or a list of
 * mistakes with line and column. It is strict, because what is read decides what agents may do: YAML 1.2 with the core
 * schema whatever a directive says, no anchors and so no self-references, no tags but those of the core schema, no key
 * twice, bounded size and depth. No text makes it throw.
 */

/** A mistake, and where it is. */
export interface DocumentError {
  line: number
  column: number
  /** The field, such as rules.3.match.category; '' if it is about the text. */
  path: string
  message: string
  /** Which kind of mistake, where the kind of document names them. */
  code?: string
}

export type DocumentFormat = 'yaml' | 'json'
export type DocumentPath = readonly PropertyKey[]
/** Notes a mistake at a field of the document. */
export type Report = (path: DocumentPath, message: string, code?: string) => void

/** What a kind of document must be. */
export interface DocumentKind<T> {
  schema: z.ZodType<T>
  maxBytes: number
  /** What a schema cannot say. */
  check?: (value: T, report: Report) => void
}

const maxErrors = 50
/** The parser makes a token of each, so this many bound its time whatever the text is. */
const maxSigns = 30_000
const maxMessage = 300
const maxDepth = 50
const tooDeep = 'Must not be nested so deeply'

const options = {
  // Repeated keys are found below: the parser compares each with each.
  uniqueKeys: false,
  prettyErrors: false,
  version: '1.2',
  // A directive %YAML 1.1 does not change it.
  schema: 'core',
  // Sets, dates, bytes and merged maps are no values of a document: their tags are refused like unknown ones.
  resolveKnownTags: false,
  logLevel: 'error',
} as const

/** A text that was read, before any schema: its value, and where a field of it is. */
export interface OpenedDocument {
  value: unknown
  placeOf(path: DocumentPath): { line: number; column: number }
}

/** JSON is YAML too, but whoever says "json" gets JSON's own strictness. */
export function parseDocument<T>(
  text: string,
  format: DocumentFormat,
  kind: DocumentKind<T>,
): { value: T } | { errors: DocumentError[] } {
  const read = readText(text, format, kind.maxBytes)
  if ('errors' in read) return read
  return readValue(read.document, kind, read.lines)
}

/** For kinds of documents of which a part may be used though another has mistakes. */
export function openDocument(
  text: string,
  format: DocumentFormat,
  maxBytes: number,
): OpenedDocument | { errors: DocumentError[] } {
  const read = readText(text, format, maxBytes)
  if ('errors' in read) return read
  const { document, lines } = read
  return {
    value: document.toJS(),
    placeOf: (path) => {
      const { line, col } = lines.linePos(offsetOf(document, path))
      return { line, column: col }
    },
  }
}

function readText(
  text: string,
  format: DocumentFormat,
  maxBytes: number,
): { document: Document; lines: LineCounter } | { errors: DocumentError[] } {
  if (byteLength(text) > maxBytes)
    return { errors: [errorAt(1, 1, '', `Must be at most ${maxBytes / 1024} KiB`)] }
  if (hasTooManySigns(text))
    return {
      errors: [
        errorAt(
          1,
          1,
          '',
          `Must have at most ${maxSigns} line ends, quotes, brackets and other signs`,
        ),
      ],
    }
  const lines = new LineCounter()
  try {
    const document = parseYaml(text, { ...options, lineCounter: lines })
    const errors = [...syntaxErrors(document, lines), ...structureErrors(document, lines)]
    if (errors.length === 0 && format === 'json') errors.push(...jsonErrors(text, lines))
    return errors.length > 0 ? { errors: errors.slice(0, maxErrors) } : { document, lines }
  } catch {
    // The parser goes as deep as the text, until the stack ends.
    return { errors: [errorAt(1, 1, '', tooDeep)] }
  }
}

const errorAt = (line: number, column: number, path: string, message: string): DocumentError => ({
  line,
  column,
  path: path.slice(0, maxMessage),
  message: message.slice(0, maxMessage),
})

/** What YAML gives a meaning: whatever is no letter, digit or plain space. Runs of spaces count once. */
function hasTooManySigns(text: string): boolean {
  let signs = 0
  let before = 0
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    const isPlain =
      code > 0x7f ||
      (code >= 0x30 && code <= 0x39) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x61 && code <= 0x7a) ||
      isWithin(code)
    if (!isPlain && !(code === 0x20 && before === 0x20)) signs += 1
    if (signs > maxSigns) return true
    before = code
  }
  return false
}

/** Common inside of words and paths: `.`, `/`, `_`, `(`, `)`, `=`, `+`, `$`, `;`, `^`, `~`, `<`, `\\`. */
const isWithin = (code: number): boolean =>
  code === 0x2e ||
  code === 0x2f ||
  code === 0x5f ||
  code === 0x28 ||
  code === 0x29 ||
  code === 0x3d ||
  code === 0x2b ||
  code === 0x24 ||
  code === 0x3b ||
  code === 0x5e ||
  code === 0x7e ||
  code === 0x3c ||
  code === 0x5c

function readValue<T>(
  document: Document,
  { schema, check }: DocumentKind<T>,
  lines: LineCounter,
): { value: T } | { errors: DocumentError[] } {
  const errors: DocumentError[] = []
  const report: Report = (path, message, code) =>
    errors.push({ ...placed(document, lines, path, message), ...(code !== undefined && { code }) })
  const parsed = schema.safeParse(document.toJS())
  if (parsed.success) check?.(parsed.data, report)
  else for (const issue of parsed.error.issues.slice(0, maxErrors)) reportIssue(issue, report)
  if (parsed.success && errors.length === 0) return { value: parsed.data }
  return { errors: errors.toSorted((a, b) => a.line - b.line).slice(0, maxErrors) }
}

function syntaxErrors({ errors, warnings }: Document, lines: LineCounter): DocumentError[] {
  // A warning is about a tag or a directive that nobody here understands.
  return [...errors, ...warnings].slice(0, maxErrors).map(({ pos, message }) => {
    const { line, col } = lines.linePos(pos[0])
    return errorAt(line, col, '', message.startsWith('Maximum call stack') ? tooDeep : message)
  })
}

/** Anchors can make a small text a huge document, and of two equal keys one would be lost. */
function structureErrors(document: Document, lines: LineCounter): DocumentError[] {
  const errors: DocumentError[] = []
  const refuse = (node: unknown, message: string) => {
    const { line, col } = lines.linePos(isNode(node) ? (node.range?.[0] ?? 0) : 0)
    errors.push(errorAt(line, col, '', message))
  }
  visit(document, (_, node, path) => {
    if (errors.length >= maxErrors) return visit.BREAK
    if (isAlias(node) || (isNode(node) && 'anchor' in node && node.anchor))
      refuse(node, 'Anchors and aliases are not allowed')
    if (isCollection(node) && path.filter(isCollection).length >= maxDepth) {
      refuse(node, tooDeep)
      return visit.BREAK
    }
    if (isMap(node)) {
      for (const { key } of node.items) if (isCollection(key)) refuse(key, 'Keys must be text')
      for (const repeated of repeatedKeys(node)) refuse(repeated, 'Keys must be unique')
    }
    return undefined
  })
  return errors
}

function repeatedKeys({ items }: YAMLMap): unknown[] {
  const seen = new Set<string>()
  return items
    .map(({ key }) => key)
    .filter((key) => {
      const name = nameOf(key)
      const repeated = name !== undefined && seen.has(name)
      if (name !== undefined) seen.add(name)
      return repeated
    })
}

/** What the key is called in the value: an empty one has the empty name. */
const nameOf = (key: unknown): string | undefined =>
  isScalar<string | number | boolean | null>(key) ? String(key.value ?? '') : undefined

function jsonErrors(text: string, lines: LineCounter): DocumentError[] {
  try {
    JSON.parse(text)
    return []
  } catch (error) {
    const message = error instanceof Error ? error.message : 'Not JSON'
    const { line, col } = lines.linePos(Number(/position (\d+)/.exec(message)?.[1] ?? 0))
    return [errorAt(line, col, '', message.replace(/ in JSON at position.*$/s, ''))]
  }
}

function reportIssue(issue: z.core.$ZodIssue, report: Report): void {
  if (issue.code !== 'unrecognized_keys') return report(issue.path, issue.message)
  for (const key of issue.keys.slice(0, maxErrors)) report([...issue.path, key], issue.message)
}

/** At the field itself; if it is missing, at what should have it. */
function placed(
  document: Document,
  lines: LineCounter,
  path: DocumentPath,
  message: string,
): DocumentError {
  const { line, col } = lines.linePos(offsetOf(document, path))
  return errorAt(line, col, path.join('.'), message)
}

function offsetOf(document: Document, path: DocumentPath): number {
  let node: unknown = document.contents
  let offset = 0
  for (const key of path) {
    if (isNode(node)) offset = node.range?.[0] ?? offset
    if (isMap(node)) {
      const pair = node.items.find((item) => nameOf(item.key) === String(key))
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
