import type { z } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { AppError, type ErrorDetail } from '../../contract/error.ts'
import type { AppContext, AppEnv } from './context.ts'
import { invalidIssuesError, invalidRequestError } from './errors.ts'

const maxJsonBytes = 1024 * 1024
const maxDepth = 64
/** Of one object. What has more says nothing to any schema, and each of its names costs something to refuse. */
const maxFields = 10_000
/** If a body has more, its check ends at the first value that is wrong: each one that is told costs more than to read it. */
const manyValues = 10_000
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/**
 * Answering while the sender still writes cuts the connection on workerd, and the sender never sees why. So a body that
 * is too large is still read to its end, and thrown away, if the end is not far.
 */
const maxDrainBytes = 32 * 1024 * 1024

/** Reads the body within the limit. It has not been read by anyone before. */
export async function readBody(
  request: Request,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const announced = request.headers.get('content-length')
  // The server holds the sender to the announced length.
  if (announced !== null && Number(announced) <= maxBytes) {
    return new Uint8Array(await request.arrayBuffer())
  }
  const kept = request.body ? await readCapped(request.body, maxBytes) : new Uint8Array()
  if (kept === null || announced !== null) throw bodyTooLarge(maxBytes)
  return kept
}

/** null: it was larger. */
async function readCapped(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const chunks: Uint8Array[] = []
  let size = 0
  // Leaving the loop cancels the stream.
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size <= maxBytes) chunks.push(chunk)
    else chunks.length = 0
    if (size > maxBytes + maxDrainBytes) break
  }
  return size > maxBytes ? null : joined(chunks, size)
}

function joined(chunks: Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}

function bodyTooLarge(maxBytes: number): AppError {
  return new AppError('too_large', `The body is larger than ${maxBytes} bytes`)
}

/**
 * Reads and checks a JSON body before any schema sees it; undefined if it is empty. What passes is well-formed all the
 * way down, so it can be stored, compared and logged without surprises.
 */
export async function readJsonBody(c: AppContext, maxBytes = maxJsonBytes): Promise<ReadJson> {
  const text = decode(await readBody(c.req.raw, maxBytes))
  if (text === '') return { text, value: undefined, values: 0 }
  return { text, ...checkJson(c.req.header('content-type'), text) }
}

interface ReadJson {
  text: string
  value: unknown
  /** How many there are in it. */
  values: number
}

const largerBodies = new WeakMap<z.ZodType, number>()

/** For bodies that carry files: they may be larger than others. */
export function allowLargerBody(schema: z.ZodType, maxBytes: number): void {
  largerBodies.set(schema, maxBytes)
}

/** Leaves the text where Hono's validator looks for it. */
export const readJson =
  (schema: z.ZodType): MiddlewareHandler<AppEnv> =>
  async (c, next) => {
    const { text, value, values } = await readJsonBody(c, largerBodies.get(schema))
    if (values > manyValues) refuseFirstWrong(schema, value)
    const given = text === '' ? emptyBody(schema) : text
    // Nothing of no type is taken for nothing; anything else of no type would be refused.
    const kept = c.req.header('content-type') === undefined ? text : given
    // Hono keeps promises here, whatever its types say.
    c.req.bodyCache.text = Promise.resolve(kept) as unknown as string
    await next()
  }

const untilWrong: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true }

function refuseFirstWrong(schema: z.ZodType, value: unknown): void {
  const { error } = schema.safeParse(value, untilWrong)
  if (error) throw invalidIssuesError(error.issues)
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch {
    throw invalidRequestError([{ path: '', message: 'The body is not UTF-8' }])
  }
}

function checkJson(contentType: string | undefined, text: string): Omit<ReadJson, 'text'> {
  if (!/^application\/json\s*(;|$)/i.test(contentType ?? '')) {
    throw invalidRequestError([{ path: '', message: 'The content-type must be application/json' }])
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalidRequestError([{ path: '', message: 'The body is not JSON' }])
  }
  const counted = { values: 0 }
  const flaw = findFlaw(value, 0, counted)
  if (flaw) throw invalidRequestError([detail(flaw)])
  return { value, ...counted }
}

interface Flaw {
  /** Innermost first. */
  path: string[]
  message: string
}

function detail({ path, message }: Flaw): ErrorDetail {
  const text = path.toReversed().join('.')
  return { path: text.toWellFormed().replaceAll('\0', '\u{fffd}').slice(0, 200), message }
}

function findFlaw(value: unknown, depth: number, counted: { values: number }): Flaw | null {
  counted.values += 1
  if (typeof value === 'string') return findTextFlaw(value)
  if (value === null || typeof value !== 'object') return null
  if (depth >= maxDepth) return { path: [], message: `Nested deeper than ${maxDepth} levels` }
  if (Array.isArray(value)) return findItemFlaw(value, depth, counted)
  if (Object.keys(value).length > maxFields)
    return { path: [], message: `An object must not have more than ${maxFields} fields` }
  for (const [name, item] of Object.entries(value)) {
    const flaw =
      findTextFlaw(name) ??
      // Copying such an object would set its prototype instead of a field.
      (name === '__proto__' ? { path: [], message: 'This name is not allowed' } : null) ??
      (isImportKey(name, depth) ? findHalfCharacter(item) : findFlaw(item, depth + 1, counted))
    if (flaw) return { ...flaw, path: [...flaw.path, name] }
  }
  return null
}

function findItemFlaw(items: unknown[], depth: number, counted: { values: number }): Flaw | null {
  for (const [index, item] of items.entries()) {
    const flaw = findFlaw(item, depth + 1, counted)
    if (flaw) return { ...flaw, path: [...flaw.path, String(index)] }
  }
  return null
}

/** Of a change that is imported: its parts are divided by NUL. It is looked up by its hash and kept as JSON. */
const isImportKey = (name: string, depth: number) => name === 'sourceImportKey' && depth === 3

const findHalfCharacter = (key: unknown): Flaw | null =>
  typeof key === 'string' && !key.isWellFormed()
    ? { path: [], message: 'Must not contain lone surrogates' }
    : null

function findTextFlaw(text: string): Flaw | null {
  return text.isWellFormed() && !text.includes('\0')
    ? null
    : { path: [], message: 'Must not contain NUL or lone surrogates' }
}

/** What an empty body stands for: nothing, where everything may be left out; else it is missing, and the fields are told. */
function emptyBody(schema: z.ZodType): string {
  if (schema.safeParse({}).success) return '{}'
  const fields = 'shape' in schema ? Object.entries(schema.shape as z.ZodRawShape) : []
  const isOptional = (field: z.core.$ZodType) => (field as z.ZodType).safeParse(undefined).success
  const required = fields.filter(([, field]) => !isOptional(field)).map(([name]) => name)
  const optional = fields.filter(([, field]) => isOptional(field)).map(([name]) => name)
  const details: ErrorDetail[] = required.map((path) => ({ path, message: 'Required' }))
  const also = optional.length > 0 ? `, and may have ${optional.join(', ')}` : ''
  throw invalidRequestError(
    details,
    `A body is required: send JSON with "content-type: application/json". It needs ${required.join(', ')}${also}`,
  )
}
