import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { loadSession } from '../record/record.ts'

/** One model call, as counted on its way to the vendor. */
export interface ModelUsage {
  model: string
  inputTokens: number
  outputTokens: number
  moneyMicros: number
}

const dayMs = 86_400_000

export function addModelUsage(sql: Sql, now: number, { model, ...used }: ModelUsage): void {
  const usage = { model: model.slice(0, 200), ...used }
  addTotal(sql, usage)
  billDay(sql, now, usage)
}

/** What libSQL gets is the sum of the day: sending it again changes nothing. */
function billDay(sql: Sql, now: number, usage: ModelUsage): void {
  const day = Math.floor(now / dayMs)
  const { model, inputTokens, outputTokens, moneyMicros } = usage
  sql.run(
    `insert into usage_days values (?, ?, 1, ?, ?, ?) on conflict (day, model) do update set requests = requests + 1,
       input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
       money_micros = money_micros + excluded.money_micros`,
    ...[day, model, inputTokens, outputTokens, moneyMicros],
  )
  const [sums] = sql.all<object>(
    `select requests, input_tokens as inputTokens, output_tokens as outputTokens, money_micros as moneyMicros
     from usage_days where day = ? and model = ?`,
    day,
    model,
  )
  const { project, memberId } = loadSession(sql)
  addToOutbox(sql, now, 'model_usage', { day, model, project, memberId, ...sums })
}

function addTotal(sql: Sql, usage: ModelUsage): void {
  sql.run(
    `insert into model_usage (model, requests, input_tokens, output_tokens) values (?, 1, ?, ?)
     on conflict (model) do update set requests = requests + 1,
       input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens`,
    usage.model,
    usage.inputTokens,
    usage.outputTokens,
  )
}

export function totalUsage(sql: Sql): {
  requests: number
  inputTokens: number
  outputTokens: number
} {
  const row = sql.all<{
    requests: number | null
    inputTokens: number | null
    outputTokens: number | null
  }>(
    `select sum(requests) as requests, sum(input_tokens) as inputTokens, sum(output_tokens) as outputTokens from model_usage`,
  )[0]
  return {
    requests: row?.requests ?? 0,
    inputTokens: row?.inputTokens ?? 0,
    outputTokens: row?.outputTokens ?? 0,
  }
}
