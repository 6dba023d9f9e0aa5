import type { z } from 'zod'
import { type EvalProblem, maxEvalCases, maxEvalFileBytes } from '../../../contract/eval-suite.ts'
import { type DocumentPath, openDocument } from '../../documents.ts'

/**
 * One file while it is read: what it says, how it spells its keys, and every mistake so far with the place where a person
 * finds it. Readers make one normal form of the spellings that they accept (`settings`), then `parse` holds it to a
 * schema; a mistake is told in the file's own words.
 */
export class Reading {
  readonly filePath: string
  readonly value: unknown
  readonly problems: EvalProblem[] = []
  readonly #placeOf: (path: DocumentPath) => { line: number; column: number }
  #errors = 0
  /** Of a value in its normal form: where it is in the file, and how its keys are spelled there. */
  readonly #origins = new WeakMap<object, Origin>()

  constructor(
    filePath: string,
    value: unknown,
    placeOf: (path: DocumentPath) => { line: number; column: number },
  ) {
    this.filePath = filePath
    this.value = value
    this.#placeOf = placeOf
  }

  /** All, also those that are too many to be told. */
  get errorCount(): number {
    return this.#errors
  }

  tell(severity: EvalProblem['severity'], path: DocumentPath, message: string): void {
    if (severity === 'error') this.#errors += 1
    if (this.problems.length < maxProblems)
      this.problems.push({
        severity,
        filePath: this.filePath,
        location: locationOf(path),
        message,
        ...this.#placeOf(path),
      })
  }

  /**
   * The keys of settings in camelCase, however they are spelled, and under the first of their names. Values are users'
   * data and stay as they are. Null: it is no map.
   */
  settings(given: unknown, path: DocumentPath, names: Names = {}): Settings | null {
    if (!isRecord(given)) {
      this.tell('error', path, 'Must be a map')
      return null
    }
    const normal: Settings = {}
    const keys = new Map<string, DocumentPath>()
    for (const [key, value] of Object.entries(given)) {
      const camel = camelCase(key)
      const name = Object.hasOwn(names, camel) ? (names[camel] ?? camel) : camel
      const before = keys.get(name)
      if (before !== undefined)
        this.tell('error', [...path, key], `Is there already as "${String(before.at(-1))}"`)
      else {
        keys.set(name, [...path, key])
        Object.defineProperty(normal, name, {
          value,
          enumerable: true,
          writable: true,
          configurable: true,
        })
      }
    }
    this.#origins.set(normal, { path, keys })
    return normal
  }

  /** Where a value in its normal form is in the file. */
  from<T extends object>(value: T, path: DocumentPath, whole = false): T {
    this.#origins.set(value, { path, keys: new Map(), whole })
    return value
  }

  /** One more setting, which stands elsewhere in the file. */
  put(settings: Settings, key: string, value: unknown, path: DocumentPath): void {
    settings[key] = value
    this.#origins.get(settings)?.keys.set(key, path)
  }

  /** A copy in another form, whose keys are still those of the original. */
  sameAs<T extends object>(value: T, original: object): T {
    const origin = this.#origins.get(original)
    if (origin !== undefined) this.#origins.set(value, origin)
    return value
  }

  pathOf(value: object, key?: string): DocumentPath {
    const origin = this.#origins.get(value)
    if (key === undefined) return origin?.path ?? []
    return origin?.keys.get(key) ?? [...(origin?.path ?? []), key]
  }

  /** Null if it does not fit; then each mistake was told. */
  parse<T>(schema: z.ZodType<T>, value: unknown, path: DocumentPath): T | null {
    const parsed = schema.safeParse(value)
    if (parsed.success) return parsed.data
    for (const issue of parsed.error.issues.slice(0, 20)) {
      const at = this.#translate(value, issue.path, path)
      if (issue.code === 'unrecognized_keys')
        for (const key of issue.keys)
          this.tell(
            'error',
            this.#translate(value, [...issue.path, key], path),
            'There is no such field',
          )
      else this.tell('error', at, issue.message)
    }
    return null
  }

  #translate(value: unknown, issue: DocumentPath, path: DocumentPath): DocumentPath {
    let [at, node] = [path, value]
    for (const key of issue) {
      const origin = this.#originOf(node)
      if (origin?.whole === true) return origin.path
      // What is absent is named as documents spell it.
      const named = origin === undefined || typeof key !== 'string' ? key : snakeCase(key)
      at = origin?.keys.get(String(key)) ?? [...(origin?.path ?? at), named]
      node = isRecord(node) || Array.isArray(node) ? Reflect.get(node, key) : undefined
    }
    return this.#originOf(node)?.path ?? at
  }

  #originOf(node: unknown): Origin | undefined {
    return typeof node === 'object' && node !== null ? this.#origins.get(node) : undefined
  }
}

interface Origin {
  path: DocumentPath
  /** How the keys are spelled in the file. */
  keys: Map<string, DocumentPath>
  /** It is written shorter in the file: there are no places inside of it. */
  whole?: boolean
}

/** Of one file, and of all together. */
export const maxProblems = 200

export type Settings = Record<string, unknown>
/** Other names of settings, in camelCase. */
export type Names = Readonly<Record<string, string>>

export const isRecord = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)

export const camelCase = (key: string): string =>
  key.replaceAll(/(?<=[a-z0-9])_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

const snakeCase = (key: string): string =>
  key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** `evalcases[2].input_messages[0].role` */
const locationOf = (path: DocumentPath): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === 'number'
        ? `${text}[${key}]`
        : text === ''
          ? String(key)
          : `${text}.${String(key)}`,
    '',
  )

/** Opens a file, or says why it cannot be read. */
export function openReading(
  filePath: string,
  text: string,
): { reading: Reading } | { problems: EvalProblem[] } {
  const format = filePath.endsWith('.json') ? 'json' : 'yaml'
  const opened = openDocument(text, format, maxEvalFileBytes)
  if ('errors' in opened)
    return {
      problems: opened.errors.map(({ line, column, message }) => ({
        severity: 'error' as const,
        filePath,
        location: '',
        message,
        line,
        column,
      })),
    }
  return { reading: new Reading(filePath, opened.value, (path) => opened.placeOf(path)) }
}

/** One reading per line that is not empty. A line that is no JSON is a problem of its own. */
export function openLineReadings(
  filePath: string,
  text: string,
): { readings: Reading[]; problems: EvalProblem[] } {
  const readings: Reading[] = []
  const problems: EvalProblem[] = []
  const lines = [...text.split('\n').entries()].filter(([, line]) => line.trim() !== '')
  if (lines.length > maxEvalCases) {
    const message = `Must have at most ${maxEvalCases} lines`
    return { readings, problems: [{ severity: 'error', filePath, location: '', message }] }
  }
  for (const [at, line] of lines) {
    const quick = quickJson(line)
    const opened = quick ?? openDocument(line.trim(), 'json', maxEvalFileBytes)
    if ('errors' in opened) {
      const [first] = opened.errors
      problems.push({
        severity: 'error',
        filePath,
        location: `line ${at + 1}`,
        message: first?.message ?? 'Not JSON',
        line: at + 1,
        column: first?.column ?? 1,
      })
    } else readings.push(new Reading(filePath, opened.value, () => ({ line: at + 1, column: 1 })))
  }
  return { readings, problems }
}

/**
 * Plain JSON without the reader of documents, which takes ten times as long. Null: it is for that reader to say what is
 * wrong, as it is with a key that is there twice or a value that is nested too deeply.
 */
function quickJson(line: string): { value: unknown } | null {
  try {
    const value: unknown = JSON.parse(line)
    const written = line.match(/"(?:[^"\\]|\\.)*"\s*:?/g)?.filter((text) => text.endsWith(':'))
    return countKeys(value, 0) === (written?.length ?? 0) ? { value } : null
  } catch {
    return null
  }
}

const maxDepth = 40

function countKeys(value: unknown, depth: number): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth > maxDepth) return Number.NaN
  const inner = Object.values(value).reduce<number>(
    (sum, each) => sum + countKeys(each, depth + 1),
    0,
  )
  return inner + (Array.isArray(value) ? 0 : Object.keys(value).length)
}
