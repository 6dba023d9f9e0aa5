import { z } from 'zod'
import { Text } from './ids.ts'
import type { ModelPrice } from './model-table.ts'

/** What is counted. Money in millionths of a US dollar, so that sums are exact. */
export const measures = ['wallMs', 'toolCalls', 'tokens', 'moneyMicros'] as const
export type Measure = (typeof measures)[number]
export type Amounts = Record<Measure, number>

export const noAmounts: Amounts = { wallMs: 0, toolCalls: 0, tokens: 0, moneyMicros: 0 }

/** What a measure is called by those who set it, and how many of its units one of theirs is. */
export const measureNames = {
  wallMs: { name: 'wallSeconds', unit: 1000 },
  toolCalls: { name: 'toolCalls', unit: 1 },
  tokens: { name: 'tokens', unit: 1 },
  moneyMicros: { name: 'moneyUsd', unit: 1_000_000 },
} as const satisfies Record<Measure, { name: string; unit: number }>

const most = 1_000_000_000
/** Absent: not limited. */
export const Budget = z.strictObject({
  wallSeconds: z.number().int().min(1).max(most).optional().describe('While a turn runs'),
  toolCalls: z.number().int().min(0).max(most).optional(),
  tokens: z
    .number()
    .int()
    .min(0)
    .max(most)
    .optional()
    .describe('All that a step counts, cached ones too'),
  moneyUsd: z.number().min(0).max(1_000_000).optional().describe('Tokens x the dated price table'),
})
export type Budget = z.infer<typeof Budget>

const used = z.object({
  wallSeconds: z.number(),
  toolCalls: z.number(),
  tokens: z.number(),
  moneyUsd: z.number(),
})
export const BudgetView = z.object({
  limits: Budget,
  used,
  spent: z.array(z.string()).describe('Why nothing more runs; empty while something may'),
})
export type BudgetView = z.infer<typeof BudgetView>

/** The organisation's, or one project's. `reserved` is in the hands of live sessions. */
export const SharedBudgetView = BudgetView.extend({
  project: z.string().nullable(),
  reserved: used,
})
export type SharedBudgetView = z.infer<typeof SharedBudgetView>

const project = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/)
  .optional()
  .describe('Absent: the whole organisation')

export const SharedBudgetPut = z.strictObject({ project, limits: Budget })
export type SharedBudgetPut = z.infer<typeof SharedBudgetPut>

/** What was counted is wrong. Measures that are left out stay as they are. */
export const BudgetCorrect = z.strictObject({
  used: z
    .strictObject({
      wallSeconds: z.number().min(0).max(most).optional(),
      toolCalls: z.number().int().min(0).max(most).optional(),
      tokens: z.number().int().min(0).max(most).optional(),
      moneyUsd: z.number().min(0).max(1_000_000).optional(),
    })
    .refine((used) => Object.values(used).some((value) => value !== undefined), {
      error: 'Name at least one of wallSeconds, toolCalls, tokens, moneyUsd',
    })
    .describe('What has been used, in truth'),
  reason: Text(2000, 1),
})
export type BudgetCorrect = z.infer<typeof BudgetCorrect>
export const SharedBudgetCorrect = BudgetCorrect.extend({ project })
export type SharedBudgetCorrect = z.infer<typeof SharedBudgetCorrect>

export const BudgetCorrection = z.object({
  at: z.number(),
  actor: z.string(),
  reason: z.string(),
  before: used,
  after: used,
})
export type BudgetCorrection = z.infer<typeof BudgetCorrection>
export const CorrectedBudget = BudgetView.extend({ correction: BudgetCorrection })
export type CorrectedBudget = z.infer<typeof CorrectedBudget>
export const CorrectedSharedBudget = SharedBudgetView.extend({ correction: BudgetCorrection })
export type CorrectedSharedBudget = z.infer<typeof CorrectedSharedBudget>

/** In the units of the counters: what was counted, but for the measures that are corrected. */
export function correctedBudget(before: Amounts, corrected: BudgetCorrect['used']): Amounts {
  const after = { ...before }
  for (const measure of measures) {
    const { name, unit } = measureNames[measure]
    const value = corrected[name]
    if (value !== undefined) after[measure] = Math.round(value * unit)
  }
  return after
}

/** In the units of the counters; null: not limited. */
export function budgetLimit(budget: Budget, measure: Measure): number | null {
  const { name, unit } = measureNames[measure]
  const limit = budget[name]
  return limit === undefined ? null : Math.round(limit * unit)
}

export function shownBudget(amounts: Amounts): z.infer<typeof used> {
  return {
    wallSeconds: amounts.wallMs / 1000,
    toolCalls: amounts.toolCalls,
    tokens: amounts.tokens,
    moneyUsd: amounts.moneyMicros / 1_000_000,
  }
}

export interface StepTokens {
  input: number
  output: number
  reasoning: number
  cacheRead: number
  cacheWrite: number
}

/** Prices are per million tokens, so a token times its price is millionths already. Reasoning is paid as output. */
export function budgetCostMicros(price: ModelPrice, tokens: StepTokens): number {
  const { input, output, reasoning, cacheRead, cacheWrite } = tokens
  return Math.ceil(
    input * price.input +
      (output + reasoning) * price.output +
      cacheRead * (price.cacheRead ?? price.input) +
      cacheWrite * (price.cacheWrite ?? price.input),
  )
}
