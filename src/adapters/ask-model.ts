import {
  type Model,
  modelCost,
  modelRows,
  type OpencodeProvider,
  opencodeProviderOf,
  parseModel,
} from '../contract/models.ts'
import type {
  AskModel,
  ModelAnswer,
  ModelPermission,
  ModelQuestion,
} from '../core/eval-run/record/ask-model.ts'

interface Vendor {
  baseUrl: string
  apiKey: string
}
/** As they are configured. */
interface Vendors {
  models: Record<OpencodeProvider, Vendor | null>
  extraModels: readonly string[]
}
type Json = Record<string, unknown>

/** No answer of an eval is longer. */
const maxAnswerBytes = 4 * 1024 * 1024

/**
 * Asks models for eval runs, at the same vendors and with the same keys as the model proxy. The address is the
 * configuration's: no file of an eval can name another. A redirect is not followed, so that the key goes nowhere else.
 */
export function createAskModel({
  models,
  extraModels,
  organisation,
}: Vendors & ModelPermission): AskModel {
  return async (organisationId, question) => {
    let vendor: Vendor | null = null
    try {
      const model = parseModel(question.model, modelRows(extraModels))
      const provider = opencodeProviderOf(model)
      vendor = models[provider]
      if (!vendor) return failed(`No key is set for the model provider "${provider}"`)
      const killed = await organisation(organisationId).firewall.killReason()
      if (killed !== null) return failed(`Models are not asked: ${killed}`)
      return await ask(vendor, model, question)
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      return failed(redact(text, vendor))
    }
  }
}

const failed = (error: string, costMicros: number | null = 0): ModelAnswer => ({
  ...{ kind: 'failed', error, isTimeout: false, costMicros },
})

/** Vendors like to quote the key that they refuse. */
const redact = (text: string, vendor: Vendor | null): string =>
  vendor ? text.replaceAll(vendor.apiKey, '[secret:MODEL_KEY]') : text

async function ask(vendor: Vendor, model: Model, question: ModelQuestion): Promise<ModelAnswer> {
  const isAnthropic = opencodeProviderOf(model) === 'anthropic'
  const path = isAnthropic ? 'v1/messages' : 'chat/completions'
  const credential: Record<string, string> = isAnthropic
    ? { 'x-api-key': vendor.apiKey, 'anthropic-version': '2023-06-01' }
    : { authorization: `Bearer ${vendor.apiKey}` }
  const signal = AbortSignal.timeout(question.timeoutMs)
  let isAnswered = false
  try {
    const response = await fetch(`${vendor.baseUrl}/${path}`, {
      method: 'POST',
      headers: { ...credential, 'content-type': 'application/json' },
      body: JSON.stringify(isAnthropic ? messagesOf(model, question) : chatOf(model, question)),
      redirect: 'manual',
      signal,
    })
    isAnswered = response.ok
    const text = await readText(response.body)
    if (!response.ok) {
      const said = redact(text, vendor).slice(0, 500).toWellFormed()
      return failed(`The model vendor answered ${response.status}: ${said}`)
    }
    return answerOf(model, text)
  } catch (error) {
    // What was cut off in the middle is paid all the same.
    const cost = isAnswered ? null : 0
    if (!signal.aborted) return failed(`The model vendor cannot be reached: ${String(error)}`, cost)
    const isTimeout = true
    return { kind: 'failed', error: 'The model timed out', isTimeout, costMicros: null }
  }
}

const chatOf = (model: Model, { system, prompt, temperature, maxOutputTokens }: ModelQuestion) => ({
  model: model.apiId,
  messages: [
    ...(system === null ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content: prompt },
  ],
  max_tokens: maxOutputTokens,
  ...(temperature !== undefined && { temperature }),
})

const messagesOf = (model: Model, asked: ModelQuestion) => ({
  model: model.apiId,
  ...(asked.system !== null && { system: asked.system }),
  messages: [{ role: 'user', content: asked.prompt }],
  max_tokens: asked.maxOutputTokens,
  ...(asked.temperature !== undefined && { temperature: asked.temperature }),
})

async function readText(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > maxAnswerBytes) throw new Error('The answer is too long')
  }
  return text
}

/** Both vendors' forms. What says nothing of its use may have cost anything. */
function answerOf(model: Model, body: string): ModelAnswer {
  const json = objectOf(parse(body))
  const usage = objectOf(json['usage'])
  const count = (...names: string[]) =>
    Math.max(0, ...names.map((name) => (Number.isInteger(usage[name]) ? Number(usage[name]) : 0)))
  const isAnthropic = opencodeProviderOf(model) === 'anthropic'
  const details = objectOf(usage['prompt_tokens_details'])
  const cached = count('cache_read_input_tokens') || Number(details['cached_tokens'] ?? 0) || 0
  const all = count('input_tokens', 'prompt_tokens')
  const input = isAnthropic ? all : Math.max(0, all - cached)
  const output = count('output_tokens', 'completion_tokens')
  const cacheWrite = count('cache_creation_input_tokens')
  const cost = modelCost(model, { input, output, cacheRead: cached, cacheWrite }) ?? 0
  const costMicros = Math.ceil(cost * 1_000_000)
  const isCounted = Object.keys(usage).length > 0
  const text = isAnthropic ? blocksOf(json['content']) : choiceOf(json['choices'])
  if (text === null)
    return failed('The model vendor gave no answer that can be read', isCounted ? costMicros : null)
  return { kind: 'answered', text, tokens: { input, output, cached }, costMicros }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const objectOf = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {}

function choiceOf(choices: unknown): string | null {
  const [first] = Array.isArray(choices) ? (choices as unknown[]) : []
  const { content } = objectOf(objectOf(first)['message'])
  return typeof content === 'string' ? content : null
}

function blocksOf(content: unknown): string | null {
  if (!Array.isArray(content)) return null
  return content
    .map((block: unknown) => objectOf(block)['text'])
    .filter((text) => typeof text === 'string')
    .join('')
}
