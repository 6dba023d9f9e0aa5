import { z } from 'zod'
import { AppError } from './error.ts'
import { type Model, type ModelMaker, models } from './model-table.ts'

export const ReasoningEffort = z.enum(['quick', 'normal', 'deep'])
export type ReasoningEffort = z.infer<typeof ReasoningEffort>

export { type Model, type ModelMaker, type ModelPrice, models, pricedAt } from './model-table.ts'

/** The provider blocks of opencode.json, and the `:provider` of `/llm/:provider/*`. */
export type OpencodeProvider = 'anthropic' | 'litellm'

export const defaultModelId = 'claude-sonnet-4.6'
export const scriptedModelId = 'scripted'

/** The table, the scripted model, and whatever else the deployment serves under litellm (`GANTRY_MODEL`). */
export function modelRows(extraNames: readonly string[] = []): Model[] {
  const rows = [...models]
  for (const name of [scriptedModelId, ...extraNames]) {
    const served = name.replace(/^litellm\//i, '')
    const known = rows.some((row) => fold(row.opencodeId) === fold(`litellm/${served}`))
    if (served !== '' && !known) rows.push(extraRow(served))
  }
  return rows
}

// Modest limits, so that a model nobody has described is not asked for more than it has.
function extraRow(name: string): Model {
  return {
    id: name,
    opencodeId: `litellm/${name}`,
    apiId: name,
    provider: 'litellm',
    reasoning: false,
    context: 128_000,
    output: 8192,
    price: null,
  }
}

/** Any spelling of the table, upper or lower case, with dots or dashes. The first row that has it wins. */
export function findModel(text: string, rows: readonly Model[] = modelRows()): Model | undefined {
  const wanted = fold(text.trim())
  return rows.find((row) => spellings(row).some((spelling) => fold(spelling) === wanted))
}

/** Refuses what is not in the table instead of guessing: a guess once turned opus into sonnet. */
export function parseModel(text: string, rows: readonly Model[] = modelRows()): Model {
  const model = findModel(text, rows)
  if (model) return model
  const nearest = nearestModels(text, rows)
  throw new AppError(
    'unprocessable',
    `Unknown model "${text.slice(0, 100)}": did you mean ${nearest.map((name) => `"${name}"`).join(', ')}?`,
    nearest.map((name) => ({ path: 'model', message: `Nearest: ${name}` })),
  )
}

/** Canonical ids by edit distance to their nearest spelling. */
export function nearestModels(
  text: string,
  rows: readonly Model[] = modelRows(),
  count = 3,
): string[] {
  // Bounded, since the text is a caller's and the distance is quadratic.
  const wanted = fold(text.trim().slice(0, 100))
  const distance = (row: Model) =>
    Math.min(...spellings(row).map((spelling) => editDistance(wanted, fold(spelling))))
  return rows
    .map((row) => ({ id: row.id, distance: distance(row) }))
    .sort((a, b) => a.distance - b.distance)
    .slice(0, count)
    .map((row) => row.id)
}

export const opencodeProviderOf = (model: Model): OpencodeProvider =>
  model.opencodeId.startsWith('anthropic/') ? 'anthropic' : 'litellm'

const spellings = (row: Model) => [row.id, row.opencodeId, row.apiId]
const fold = (text: string) => text.toLowerCase().replaceAll('.', '-')

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const current = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      current.push(Math.min(replaced, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}

type Options = Record<string, unknown>
const thinking = (budgetTokens: number): Options => ({
  thinking: { type: 'enabled', budgetTokens },
})
const effort = (reasoningEffort: string): Options => ({ reasoningEffort })

/**
 * What each effort means to each maker, in the words of OpenCode's model options. OpenCode adds a thinking budget to its
 * own 32,000 output tokens: 31,999 still fits into the models' 64,000. xAI knows low and high only; normal is what it
 * does unasked.
 */
export const reasoningTable: Partial<Record<ModelMaker, Record<ReasoningEffort, Options>>> = {
  anthropic: { quick: thinking(2048), normal: thinking(10_000), deep: thinking(31_999) },
  openai: { quick: effort('low'), normal: effort('medium'), deep: effort('high') },
  deepseek: { quick: effort('low'), normal: effort('medium'), deep: effort('high') },
  xai: { quick: effort('low'), normal: {}, deep: effort('high') },
}

/** Those that the model takes. */
export const reasoningEfforts = (model: Model): ReasoningEffort[] =>
  model.reasoning && reasoningTable[model.provider] ? [...ReasoningEffort.options] : []

/** No effort asks for nothing. An effort that the model does not know is refused, not ignored. */
export function modelReasoningOptions(model: Model, wanted: ReasoningEffort | null): Options {
  if (wanted === null) return {}
  const table = reasoningTable[model.provider]
  if (model.reasoning && table) return table[wanted]
  throw new AppError('unprocessable', `Model "${model.id}" does not support a reasoning effort`, [
    { path: 'reasoningEffort', message: 'Not supported by this model' },
  ])
}

/**
 * The `npm` of each provider block; both are built into OpenCode. With its catalogue off, OpenCode takes a block without
 * one for an OpenAI-compatible server, and calls chat/completions at Anthropic.
 */
export const opencodePackages: Record<OpencodeProvider, string> = {
  anthropic: '@ai-sdk/anthropic',
  litellm: '@ai-sdk/openai-compatible',
}

/** The `models` of one provider block in opencode.json: with its catalogue off, OpenCode refuses what is not listed. */
export function opencodeModels(
  provider: OpencodeProvider,
  rows: readonly Model[] = modelRows(),
  chosen?: { model: Model; effort: ReasoningEffort | null },
): Record<string, Record<string, unknown>> {
  const listed = rows.filter((row) => opencodeProviderOf(row) === provider)
  return Object.fromEntries(
    listed.map((row) => {
      const options = chosen?.model.id === row.id ? modelReasoningOptions(row, chosen.effort) : {}
      const entry = {
        id: row.apiId,
        name: row.id,
        tool_call: true,
        reasoning: row.reasoning,
        limit: { context: row.context, output: row.output },
        ...(Object.keys(options).length > 0 && { options }),
      }
      return [row.opencodeId.slice(provider.length + 1), entry]
    }),
  )
}

export interface TokenUsage {
  /** Without what was read from or written to a cache. */
  input: number
  output: number
  cacheRead: number
  cacheWrite: number
}

/** In US dollars; null if nobody knows the price. */
export function modelCost(model: Model, usage: TokenUsage): number | null {
  const { price } = model
  if (!price) return null
  const total =
    usage.input * price.input +
    usage.output * price.output +
    usage.cacheRead * (price.cacheRead ?? price.input) +
    usage.cacheWrite * (price.cacheWrite ?? price.input)
  return total / 1_000_000
}
