import { script, type ScriptStep } from '../../local/model/scripted-model.ts'
import type { EvalAttempt, EvalEvent, EvalRun } from '../../src/contract/eval-run.ts'
import type { ResultRow } from '../../src/contract/eval-result.ts'
import { request } from '../support/stack.ts'
import { until } from './support.ts'

interface Place {
  url: string
  adminKey: string
}

export interface EvalCaseInput {
  id: string
  steps: ScriptStep[]
  target?: string
  evaluators?: object[]
  files?: { path: string; text: string }[]
}

/** What is to be run: cases that the scripted model plays, against targets of OpenCode. */
export function evalBody(cases: EvalCaseInput[], targets: object[], run: object = {}) {
  const suite = {
    dataset: 'e2e',
    evalcases: cases.map(({ id, steps, target, evaluators = [], files }) => ({
      id,
      expected_outcome: 'It is done',
      input_messages: [{ role: 'user', content: script(steps) }],
      execution: {
        ...(target !== undefined && { target }),
        evaluators: [{ name: 'says', type: 'contains', value: 'done' }, ...evaluators],
      },
      ...(files && { workspace: { files } }),
    })),
  }
  return {
    suite: 'suite.json',
    targets: 'targets.json',
    files: [
      { path: 'suite.json', content: JSON.stringify(suite) },
      { path: 'targets.json', content: JSON.stringify({ targets }) },
    ],
    ...run,
  }
}

export async function startEval(stack: Place, body: object): Promise<EvalRun> {
  const answer = await request('POST', `${stack.url}/v1/evals/runs`, stack.adminKey, body)
  if (answer.status !== 201) throw new Error(`Cannot start the run: ${answer.text}`)
  return answer.json as EvalRun
}

const read = async <T>(stack: Place, path: string): Promise<T> =>
  (await request('GET', `${stack.url}/v1/evals/runs/${path}`, stack.adminKey)).json as T

export const evalAttempts = async (stack: Place, id: string): Promise<EvalAttempt[]> =>
  (await read<{ items: EvalAttempt[] }>(stack, `${id}/attempts?limit=200`)).items

export const evalEvents = async (stack: Place, id: string): Promise<EvalEvent[]> =>
  (await read<{ items: EvalEvent[] }>(stack, `${id}/events?limit=500`)).items

export async function endedEval(stack: Place, id: string, ms = 120_000): Promise<EvalRun> {
  return until(`eval run ${id} has ended`, ms, async () => {
    const run = await read<EvalRun | undefined>(stack, id).catch(() => undefined)
    return run?.endedAt ? run : undefined
  })
}

/** Without times, ids and measurements: what two runs of the same must have in common. */
export function comparableRow({ result }: EvalAttempt): unknown {
  const { timestamp: _, transcript: __, trace_summary, tool_calls, ...row } = result as ResultRow
  const { duration_ms: ___, ...trace } = trace_summary ?? { duration_ms: 0 }
  return {
    ...row,
    trace,
    calls: tool_calls?.map(({ durationMs: ____, timestamp: _____, id: ______, ...call }) => call),
  }
}
