/**
 * Reads what a sandbox sends to a model's vendor: which model, how much it may use, and whether it asks the vendor to do
 * more than to answer. What is not known here is refused, since the key is the deployment's: fields that reach stored
 * things, fetch from elsewhere, choose another price or run something at the vendor. What is sent on is printed anew from
 * what was read, so that the vendor cannot read another request than this one. Called by routes/models.ts alone.
 */
import { AppError } from '../../../contract/error.ts'
import { maxStepTokens } from '../../../contract/reported.ts'
import type { ModelCall } from '../../../core/session/models/models.ts'

type Json = Record<string, unknown>

export interface ModelRequest extends Omit<ModelCall, 'id' | 'provider'> {
  body: string | null
}

/** Asks for the list of models. */
export const listRequest: ModelRequest = {
  ...{ body: null, model: null, needs: null, bodyBytes: 0, hasTools: false },
}

/** Fields by path; each is what OpenCode's providers send, or as harmless. */
const anthropicFields = words(`model messages system max_tokens stream temperature top_p top_k
  stop_sequences tools tool_choice thinking metadata cache_control output_config output_format service_tier`)
const chatFields =
  words(`model messages stream stream_options temperature top_p top_k min_p max_tokens
  max_completion_tokens frequency_penalty presence_penalty repetition_penalty stop seed user n response_format tools
  tool_choice parallel_tool_calls reasoning_effort reasoning thinking enable_thinking thinking_budget verbosity logit_bias
  logprobs top_logprobs prompt_cache_key safety_identifier store service_tier usage chat_template_args
  chat_template_kwargs`)
const responsesFields =
  words(`model input instructions max_output_tokens stream stream_options temperature top_p tools
  tool_choice parallel_tool_calls reasoning text include truncation user prompt_cache_key safety_identifier store
  service_tier max_tool_calls`)
const fieldsOf: readonly [path: RegExp, fields: ReadonlySet<string>][] = [
  [/^v1\/messages/, anthropicFields],
  [/chat\/completions$/, chatFields],
  [/responses$/, responsesFields],
]

/** Tools that OpenCode runs itself. All others run at the vendor. */
const ownTools = /^(function|custom|bash_\d{8}|text_editor_\d{8}|computer_\d{8}|memory_\d{8})$/
/** No price but that of the table. */
const usualTiers = words('auto default standard standard_only')
const imageTokens = 10_000

export function readModelRequest(
  path: string,
  bytes: Uint8Array,
  /** Fields and tools that the deployment allows beside the usual ones. */
  extras: readonly string[],
): ModelRequest {
  const json = parseObject(bytes)
  const { model } = json
  if (typeof model !== 'string' || model === '') throw invalid('model', 'Required')
  const extra = new Set(extras)
  refuseFields(path, json, extra)
  refuseTools(json, extra)
  // First: what nests too deeply to be printed would also be too deep for the reader of its parts.
  const body = print(json)
  const content = new Content()
  for (const message of [...list(json['messages']), ...list(json['input'])]) content.read(message)
  const bodyBytes = new TextEncoder().encode(body).byteLength
  const inputTokens = bodyBytes - content.imageBytes + content.images * imageTokens
  const hasFiles = content.hasFiles || usesExtras(json, extra)
  return {
    body,
    model,
    bodyBytes,
    hasTools: list(json['tools']).length > 0,
    needs: path.endsWith('count_tokens')
      ? null
      : { inputTokens, hasFiles, outputTokens: outputTokensOf(json) },
  }
}

function parseObject(bytes: Uint8Array): Json {
  try {
    const value: unknown = JSON.parse(
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes),
    )
    if (isObject(value)) return value
  } catch {
    // Told below.
  }
  throw invalid('', 'The body is not a JSON object')
}

function print(json: Json): string {
  try {
    return JSON.stringify(json)
  } catch {
    throw invalid('', 'Nested too deeply')
  }
}

function refuseFields(path: string, json: Json, extra: ReadonlySet<string>): void {
  const known = fieldsOf.find(([form]) => form.test(path))?.[1]
  const unknown = Object.keys(json).find((name) => !known?.has(name) && !extra.has(name))
  if (unknown !== undefined) throw refused(`field "${shown(unknown)}"`, unknown)
  const { store = null, n = 1, service_tier: tier = null } = json
  // The vendor of responses stores them unless it is told not to.
  const isStored = store !== false && (store !== null || path.endsWith('responses'))
  if (isStored && !extra.has('store')) throw refused('an answer that the vendor stores', 'store')
  if (n !== 1) throw refused('more than one answer', 'n')
  const isUsual = tier === null || (typeof tier === 'string' && usualTiers.has(tier))
  if (!isUsual && !extra.has('service_tier'))
    throw refused('another service tier than the usual one', 'service_tier')
}

function refuseTools({ tools }: Json, extra: ReadonlySet<string>): void {
  for (const tool of list(tools)) {
    const type = typeOf(tool)
    if (!ownTools.test(type) && !extra.has(nameOf(type)))
      throw refused(`tool "${shown(type)}", which runs at the vendor`, 'tools')
  }
}

/** Empty: it is no tool. */
function typeOf(tool: unknown): string {
  if (!isObject(tool)) return ''
  const { type = 'custom' } = tool
  return typeof type === 'string' ? type : ''
}

/** Without the day of its version. */
const nameOf = (type: string) => type.replace(/_\d{8}$/, '')

/** What the vendor brings in by them is not in the request's bytes. */
const usesExtras = (json: Json, extra: ReadonlySet<string>): boolean =>
  Object.keys(json).some((name) => extra.has(name)) ||
  list(json['tools']).some((tool) => extra.has(nameOf(typeOf(tool))))

/** The parts of messages. Arguments and results of tools are only text to the vendor, whatever is in them. */
class Content {
  images = 0
  imageBytes = 0
  hasFiles = false

  read(message: unknown): void {
    if (!isObject(message)) return
    if (message['type'] === 'item_reference') throw stored()
    for (const part of list(message['content'])) this.#readPart(part)
    for (const part of list(message['output'])) this.#readPart(part)
  }

  #readPart(part: unknown): void {
    if (!isObject(part)) return
    const { type, source, image_url: image, file } = part
    if ('file_id' in part) throw stored()
    if (type === 'tool_result') for (const inner of list(part['content'])) this.#readPart(inner)
    else if (type === 'image' || type === 'document') this.#readSource(type, source)
    else if (type === 'image_url') this.#readImage(isObject(image) ? image['url'] : image)
    else if (type === 'input_image') this.#readImage(image)
    else if (type === 'file' || type === 'input_file') this.#readFile(isObject(file) ? file : part)
    else if (type === 'input_audio') this.hasFiles = true
  }

  #readSource(type: string, source: unknown): void {
    const { type: kind, data, content } = isObject(source) ? source : {}
    if (kind === 'file') throw stored()
    if (kind === 'url') throw fetched()
    for (const inner of list(content)) this.#readPart(inner)
    if (type === 'document') this.hasFiles = true
    else if (kind === 'base64') this.#addImage(data)
  }

  #readImage(url: unknown): void {
    if (typeof url !== 'string' || !url.startsWith('data:')) throw fetched()
    if (url.startsWith('data:image/')) this.#addImage(url)
    else this.hasFiles = true
  }

  #readFile({ file_id: id, file_url: url }: Json): void {
    if (id !== undefined) throw stored()
    if (url !== undefined) throw fetched()
    this.hasFiles = true
  }

  #addImage(data: unknown): void {
    if (typeof data !== 'string') return
    this.images += 1
    this.imageBytes += data.length
  }
}

function outputTokensOf(json: Json): number | null {
  const given = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'].flatMap((name) => {
    const value = json[name]
    if (value === undefined || value === null) return []
    if (Number.isInteger(value) && (value as number) > 0 && (value as number) <= maxStepTokens)
      return [value as number]
    throw invalid(name, `Must be a whole number from 1 to ${maxStepTokens}`)
  })
  return given.length === 0 ? null : Math.max(...given)
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** A vendor may take one for a list of one. */
function list(value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  return isObject(value) ? [value] : []
}
const shown = (text: string) => text.toWellFormed().slice(0, 100)

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/))
}

const refused = (what: string, path: string) =>
  new AppError('model_refused', `Cannot pass a model call on: it asks for ${what}`, [
    { path: shown(path), message: 'Not allowed: see GANTRY_MODEL_EXTRAS' },
  ])

const stored = () => refused('something that the vendor stores', 'messages')
const fetched = () => refused('an address for the vendor to fetch', 'messages')

const invalid = (path: string, message: string) =>
  new AppError('invalid_request', `Invalid ${path || 'request'}: ${message}`, [{ path, message }])
