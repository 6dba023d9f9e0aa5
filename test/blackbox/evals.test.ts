import { describe, expect, test } from 'vitest'
import { evalFiles } from '../support/eval-kit.ts'
import { hostsOf, until, useStack } from '../support/stack.ts'

describe.each(hostsOf(import.meta.filename))('eval runs on %s', (host) => {
  const stack = useStack(host)

  test('[EVR1][EVR5] a run of recorded answers ends with a result for each case, in libSQL too', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e']
    const answers = Object.fromEntries(ids.map((id) => [id, id === 'e' ? '5' : '4']))
    const { status, json } = await stack().api('POST', '/v1/evals/runs', evalFiles(ids, answers))
    expect(status).toBe(201)
    const at = `/v1/evals/runs/${json.id}`
    const ended = await until(async () => {
      const run = (await stack().api('GET', at)).json
      return run.status === 'completed' ? run : undefined
    })
    expect(ended).toMatchObject({ attempts: 5, done: 5, passed: 4, errors: 0 })
    const { json: events } = await stack().api('GET', `${at}/events?limit=500`)
    const kinds = (events.items as { kind: string }[]).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'attempt.ended')).toHaveLength(5)
    const rows = () =>
      stack().db.all('select 1 from eval_results where eval_run_id = ?', String(json.id))
    await until(async () => (await rows()).length === 5)
    await stack().api('DELETE', at)
    await until(async () => (await rows()).length === 0)
  })
})
