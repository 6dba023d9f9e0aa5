import { describe, expect, test } from 'vitest'
import {
  modelCost,
  defaultModelId,
  findModel,
  modelRows,
  models,
  nearestModels,
  opencodeModels,
  parseModel,
  pricedAt,
  modelReasoningOptions,
  reasoningTable,
  ReasoningEffort,
} from '../../src/contract/models.ts'

const table = [
  ['claude-sonnet-4.6', 'anthropic/claude-sonnet-4-6', 'claude-sonnet-4-6', 'anthropic', true],
  ['claude-opus-4.6', 'anthropic/claude-opus-4-6', 'claude-opus-4-6', 'anthropic', true],
  ['gpt-5.2', 'litellm/gpt-5.2', 'gpt-5.2', 'openai', true],
  ['gemini-3-pro', 'litellm/gemini-3-pro-preview', 'gemini-3-pro-preview', 'google', false],
  ['gemini-3-flash', 'litellm/gemini-3-flash-preview', 'gemini-3-flash-preview', 'google', false],
  ['deepseek-v3', 'litellm/deepseek-v3', 'deepseek-chat', 'deepseek', false],
  ['deepseek-r1', 'litellm/deepseek-r1', 'deepseek-reasoner', 'deepseek', true],
  ['grok-4.1', 'litellm/grok-4.1', 'grok-4.1', 'xai', true],
  ['grok-4.1-fast', 'litellm/grok-4.1-fast', 'grok-4.1-fast', 'xai', false],
  ['codestral', 'litellm/codestral', 'codestral-latest', 'mistral', false],
] as const

describe('the table', () => {
  test.each(table)('%s <-> %s <-> %s', (id, opencodeId, apiId, provider, reasoning) => {
    for (const spelling of [id, opencodeId, apiId]) {
      for (const text of [
        spelling,
        spelling.replaceAll('.', '-'),
        spelling.replaceAll('-', '.'),
        spelling.toUpperCase(),
        ` ${spelling}\n`,
      ]) {
        expect(parseModel(text)).toMatchObject({ id, opencodeId, apiId, provider, reasoning })
      }
    }
  })

  test('has exactly these rows, and no spelling of one is a spelling of another', () => {
    expect(models.map((model) => model.id)).toEqual(table.map(([id]) => id))
    const rows = modelRows(['my-model'])
    for (const row of rows) {
      for (const text of [row.id, row.opencodeId, row.apiId])
        expect(findModel(text, rows)).toBe(row)
    }
  })

  test('Anthropic models go to anthropic, all others to litellm', () => {
    for (const row of modelRows(['my-model'])) {
      expect(row.opencodeId.split('/')[0]).toBe(
        row.provider === 'anthropic' ? 'anthropic' : 'litellm',
      )
    }
  })

  test('the default is in it', () => {
    expect(parseModel(defaultModelId).id).toBe('claude-sonnet-4.6')
  })
})

describe('unknown models', () => {
  test.each([
    ['claude-opus-4.7', 'claude-opus-4.6'],
    ['anthropic/claude-opus-46', 'claude-opus-4.6'],
    ['openai/gpt-5.2', 'gpt-5.2'],
    ['litellm/claude-sonnet-4-6', 'claude-sonnet-4.6'],
    ['grok-4.1-fsat', 'grok-4.1-fast'],
    ['codestrl', 'codestral'],
  ])('%s is refused, nearest %s', (text, nearest) => {
    expect(findModel(text)).toBeUndefined()
    expect(nearestModels(text)[0]).toBe(nearest)
    expect(() => parseModel(text)).toThrow(
      expect.objectContaining({
        code: 'unprocessable',
        message: expect.stringContaining(`"${nearest}"`) as unknown,
      }),
    )
  })

  test.each(['', 'opus', 'claude', 'toString', 'x'.repeat(100_000)])(
    'no guess from "%.20s"',
    (text) => {
      expect(() => parseModel(text)).toThrow(/Unknown model/)
    },
  )
})

describe('extra rows', () => {
  test('scripted is always there', () => {
    expect(parseModel('scripted').opencodeId).toBe('litellm/scripted')
  })

  test.each(['my.Model-1', 'litellm/my.Model-1', 'vendor/my-model'])('GANTRY_MODEL=%s', (name) => {
    const rows = modelRows([name])
    const served = name.replace('litellm/', '')
    expect(rows).toHaveLength(models.length + 2)
    expect(parseModel(name, rows)).toMatchObject({ opencodeId: `litellm/${served}`, apiId: served })
    expect(parseModel(`litellm/${served}`, rows).apiId).toBe(served)
  })

  test.each(['gpt-5.2', 'litellm/gpt-5-2', 'scripted', ''])('"%s" adds nothing', (name) => {
    expect(modelRows([name])).toEqual(modelRows())
  })
})

describe('reasoning effort', () => {
  const supporting = new Set<string>(table.filter((row) => row[4]).map((row) => row[0]))

  test.each(modelRows().map((model) => [model.id, model] as const))('%s', (id, model) => {
    expect(modelReasoningOptions(model, null)).toEqual({})
    for (const effort of ReasoningEffort.options) {
      if (supporting.has(id)) expect(modelReasoningOptions(model, effort)).toBeTypeOf('object')
      else expect(() => modelReasoningOptions(model, effort)).toThrow(/does not support/)
    }
  })

  test('deeper means more thinking, within what the model may put out', () => {
    const budgets = ReasoningEffort.options.map((effort) => {
      const { thinking } = reasoningTable.anthropic![effort] as {
        thinking: { budgetTokens: number }
      }
      return thinking.budgetTokens
    })
    expect(budgets).toEqual([...budgets].sort((a, b) => a - b))
    expect(budgets[0]).toBeGreaterThanOrEqual(1024)
    for (const model of models.filter((row) => row.provider === 'anthropic')) {
      expect(32_000 + budgets[2]!).toBeLessThanOrEqual(model.output)
    }
  })
})

describe('opencode.json', () => {
  test('each provider block lists its models with limits', () => {
    expect(Object.keys(opencodeModels('anthropic'))).toEqual([
      'claude-sonnet-4-6',
      'claude-opus-4-6',
    ])
    const litellm = opencodeModels('litellm')
    expect(Object.keys(litellm)).toHaveLength(8 + 1)
    expect(litellm['deepseek-v3']).toMatchObject({
      id: 'deepseek-chat',
      limit: { context: 128_000, output: 8192 },
    })
  })

  test('only the chosen model gets options', () => {
    const model = parseModel('gpt-5.2')
    const blocks = opencodeModels('litellm', modelRows(), { model, effort: 'deep' })
    expect(blocks['gpt-5.2']).toHaveProperty('options', { reasoningEffort: 'high' })
    expect(blocks['grok-4.1']).not.toHaveProperty('options')
  })
})

describe('prices', () => {
  test('are dated, positive, and output costs more than input', () => {
    expect(pricedAt).toMatch(/^\d{4}-\d{2}-\d{2}$/)
    for (const { price } of models) {
      if (!price) continue
      expect(price.input).toBeGreaterThan(0)
      expect(price.output).toBeGreaterThan(price.input)
      expect(price.cacheRead ?? 0).toBeLessThan(price.input)
    }
  })

  test('money is tokens times price; unknown stays unknown', () => {
    const usage = { input: 1_000_000, output: 100_000, cacheRead: 2_000_000, cacheWrite: 400_000 }
    expect(modelCost(parseModel('claude-sonnet-4.6'), usage)).toBeCloseTo(3 + 1.5 + 0.6 + 1.5, 10)
    expect(modelCost(parseModel('codestral'), { ...usage, cacheWrite: 0 })).toBeCloseTo(
      0.3 + 0.09 + 0.6,
      10,
    )
    expect(modelCost(parseModel('scripted'), usage)).toBeNull()
  })
})
