import type { Sql } from '../../ports.ts'

/** One model call, as counted on its way to the vendor. */
export interface ModelUsage {
  model: string
  inputTokens: number
  outputTokens: number
}

export function addModelUsage(sql: Sql, usage: ModelUsage): void {
  sql.run(
    `insert into model_usage (model, requests, input_tokens, output_tokens) values (?, 1, ?, ?)
     on conflict (model) do update set requests = requests + 1,
       input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens`,
    usage.model.slice(0, 200),
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
