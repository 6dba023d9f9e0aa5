// The model table as data: ids, limits and prices. What is done with it is in models.ts.

export type ModelMaker =
  | 'anthropic'
  | 'openai'
  | 'google'
  | 'deepseek'
  | 'xai'
  | 'mistral'
  | 'litellm'

/** US dollars per million tokens. null: the maker publishes no separate price, so the input price counts. */
export interface ModelPrice {
  input: number
  output: number
  cacheRead: number | null
  cacheWrite: number | null
}

export interface Model {
  /** Canonical: what sessions and configurations store. */
  id: string
  /** provider/model as OpenCode spells it. */
  opencodeId: string
  /** What is sent to the vendor's API. */
  apiId: string
  provider: ModelMaker
  /** Whether it takes a reasoning effort. */
  reasoning: boolean
  /** What OpenCode may use, in tokens; not more than the price below holds for. */
  context: number
  output: number
  /** null: unknown, and a budget in money is refused. */
  price: ModelPrice | null
}

/** The day on which the prices below were looked up. */
export const pricedAt = '2026-11-16'

const price = (
  input: number,
  output: number,
  cacheRead: number | null = null,
  cacheWrite: number | null = null,
): ModelPrice => ({ input, output, cacheRead, cacheWrite })

export const models: readonly Model[] = [
  {
    id: 'claude-sonnet-4.6',
    opencodeId: 'anthropic/claude-sonnet-4-6',
    apiId: 'claude-sonnet-4-6',
    provider: 'anthropic',
    reasoning: true,
    context: 200_000,
    output: 64_000,
    price: price(3, 15, 0.3, 3.75),
  },
  {
    id: 'claude-opus-4.6',
    opencodeId: 'anthropic/claude-opus-4-6',
    apiId: 'claude-opus-4-6',
    provider: 'anthropic',
    reasoning: true,
    context: 200_000,
    output: 64_000,
    price: price(5, 25, 0.5, 6.25),
  },
  {
    id: 'gpt-5.2',
    opencodeId: 'litellm/gpt-5.2',
    apiId: 'gpt-5.2',
    provider: 'openai',
    reasoning: true,
    context: 400_000,
    output: 128_000,
    price: price(1.75, 14, 0.175),
  },
  {
    id: 'gemini-3-pro',
    opencodeId: 'litellm/gemini-3-pro-preview',
    apiId: 'gemini-3-pro-preview',
    provider: 'google',
    reasoning: false,
    // It could take a million, at twice the price above 200,000.
    context: 200_000,
    output: 64_000,
    price: price(2, 12, 0.2),
  },
  {
    id: 'gemini-3-flash',
    opencodeId: 'litellm/gemini-3-flash-preview',
    apiId: 'gemini-3-flash-preview',
    provider: 'google',
    reasoning: false,
    context: 1_048_576,
    output: 65_536,
    price: price(0.5, 3, 0.05),
  },
  {
    id: 'deepseek-v3',
    opencodeId: 'litellm/deepseek-v3',
    apiId: 'deepseek-chat',
    provider: 'deepseek',
    reasoning: false,
    context: 128_000,
    output: 8192,
    price: null,
  },
  {
    id: 'deepseek-r1',
    opencodeId: 'litellm/deepseek-r1',
    apiId: 'deepseek-reasoner',
    provider: 'deepseek',
    reasoning: true,
    context: 128_000,
    output: 64_000,
    price: null,
  },
  {
    id: 'grok-4.1',
    opencodeId: 'litellm/grok-4.1',
    apiId: 'grok-4.1',
    provider: 'xai',
    reasoning: true,
    context: 200_000,
    output: 64_000,
    price: null,
  },
  {
    id: 'grok-4.1-fast',
    opencodeId: 'litellm/grok-4.1-fast',
    apiId: 'grok-4.1-fast',
    provider: 'xai',
    reasoning: false,
    context: 2_000_000,
    output: 30_000,
    price: price(0.2, 0.5, 0.05),
  },
  {
    id: 'codestral',
    opencodeId: 'litellm/codestral',
    apiId: 'codestral-latest',
    provider: 'mistral',
    reasoning: false,
    context: 256_000,
    output: 4096,
    price: price(0.3, 0.9),
  },
]
