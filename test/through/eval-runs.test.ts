import { describe, expect, test } from 'vitest'
import { useHost } from '../support/host.ts'
import { evalFiles } from '../support/eval-kit.ts'

const host = useHost()
const unconfigured = useHost({ hasEvals: false })

const at = '/v1/evals/runs'
type Item = Record<string, unknown>
const begin = (body: object, key = host().key, headers = {}) =>
  host().ok('POST', at, body, key, headers)
const view = (id: string) => host().ok('GET', `${at}/${id}`)
const attempts = async (id: string): Promise<Item[]> =>
  (await host().ok('GET', `${at}/${id}/attempts`)).items
const results = async (id: string): Promise<Item[]> =>
  (await attempts(id)).map(({ result }) => result as Item)
const events = async (id: string, kind?: string): Promise<{ kind: string; data: Item }[]> => {
  const { items } = await host().ok('GET', `${at}/${id}/events?limit=500`)
  return items.filter((event: { kind: string }) => kind === undefined || event.kind === kind)
}

describe('an eval run of recorded answers', () => {
  test('[EVR1] every case has one result, and the run ends with the hash of all of them', async () => {
    const run = await begin(evalFiles(['a', 'b', 'c'], { a: '4', b: '5' }))
    expect(run).toMatchObject({ status: 'running', attempts: 3, dataset: 'sums', hash: null })
    await host().live(6000)
    const ended = await view(run.id)
    expect(ended).toMatchObject({ status: 'completed', done: 3, passed: 1, errors: 1, running: 0 })
    expect(ended.hash).toMatch(/^[0-9a-f]{64}$/)
    expect(await results(run.id)).toMatchObject([
      { eval_id: 'a', score: 1, verdict: 'pass', target: 'recorded', attempt: 0 },
      { eval_id: 'b', score: 0, verdict: 'fail' },
      { eval_id: 'c', score: 0, misses: [expect.stringMatching(/^Error: Replay has no recorded/)] },
    ])
    const rows = await host().rows(
      'select status, attempts, passed, hash from eval_runs where id = ?',
      run.id,
    )
    expect(rows).toEqual([{ status: 'completed', attempts: 3, passed: 1, hash: ended.hash }])
    const stored = await host().rows(
      'select n, eval_id, score from eval_results where eval_run_id = ? order by n',
      run.id,
    )
    expect(stored.map(({ eval_id, score }) => [eval_id, score])).toEqual([
      ['a', 1],
      ['b', 0],
      ['c', 0],
    ])
  })

  test('[EVR1] a case that is repeated has a result for each time, by its own recorded answer', async () => {
    const body = evalFiles(['a'], { a: ['4', '5'] })
    const run = await begin({ ...body, repetitions: 3 })
    await host().live(1000)
    expect((await results(run.id)).map(({ attempt, score }) => [attempt, score])).toEqual([
      [0, 1],
      [1, 0],
      [2, 0],
    ])
  })

  test('[EVR2] the same key makes one run; with another body it is refused', async () => {
    const headers = { 'idempotency-key': 'once' }
    const body = evalFiles(['a'], { a: '4' })
    const first = await begin(body, host().key, headers)
    expect((await begin(body, host().key, headers)).id).toBe(first.id)
    const other = { ...body, workers: 2 }
    expect(await host().refusal('POST', at, other, host().key, headers)).toEqual([
      409,
      'key_conflict',
    ])
  })

  test('[EVR3] another organisation and a key of another project do not see it', async () => {
    const run = await begin({ ...evalFiles(['a'], { a: '4' }), project: 'alpha' })
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    const limited = { scopes: ['read', 'write'], limits: { projects: ['beta'] } }
    const { secret } = await host().ok('POST', '/v1/keys', { name: 'b', ...limited })
    await host().live(6000)
    for (const key of [stranger, secret]) {
      for (const path of ['', '/attempts', '/events'])
        expect(await host().refusal('GET', `${at}/${run.id}${path}`, undefined, key)).toEqual([
          404,
          'not_found',
        ])
      expect(await host().refusal('POST', `${at}/${run.id}/cancel`, {}, key)).toEqual([
        404,
        'not_found',
      ])
      expect(await host().refusal('DELETE', `${at}/${run.id}`, undefined, key)).toEqual([
        404,
        'not_found',
      ])
      expect((await host().ok('GET', at, undefined, key)).items).toEqual([])
    }
    const { items } = await host().ok('GET', `${at}?project=alpha`)
    expect(items.map(({ id }: Item) => id)).toContain(run.id)
    const body = { ...evalFiles(['a'], { a: '4' }), project: 'alpha' }
    expect(await host().refusal('POST', at, body, secret)).toEqual([403, 'forbidden'])
  })

  test('[EVR3] a made-up id reaches no object', async () => {
    const made = `${at}/evl_${'0'.repeat(30)}`
    expect(await host().refusal('GET', made)).toEqual([404, 'not_found'])
  })

  test('[EVR4] what cannot be run is refused with the place of every mistake', async () => {
    const bad = { ...evalFiles([], {}), suite: 'no.yaml' }
    const { status, json } = await host().call('POST', at, bad)
    expect([status, json.error.code]).toEqual([422, 'unprocessable'])
    expect(json.error.details[0].path).toContain('no.yaml')
    const unknown = { ...evalFiles(['a'], { a: '4' }), runTargets: ['nobody'] }
    const answer = await host().call('POST', at, unknown)
    expect(answer.json.error.message).toContain('there is no target "nobody"; known: "recorded"')
  })

  test('[EVR5] events tell what happens, in order and once, also as a stream that ends', async () => {
    const run = await begin(evalFiles(['a', 'b'], { a: '4', b: '4' }))
    await host().live(1000)
    const kinds = (await events(run.id)).map(({ kind }) => kind)
    expect(kinds[0]).toBe('run.started')
    expect(kinds.at(-1)).toBe('run.ended')
    expect(kinds.filter((kind) => kind === 'attempt.ended')).toHaveLength(2)
    const answer = await host().app.app.request(`${at}/${run.id}/events?after=1`, {
      headers: { authorization: `Bearer ${host().key}`, accept: 'text/event-stream' },
    })
    const text = await answer.text()
    const streamed = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!).kind)
    expect(streamed).toEqual(kinds.slice(1))
  })

  test('[EVR6] a run goes on after its object died, and touches no attempt that has a result', async () => {
    const ids = ['a', 'b', 'c', 'd']
    const answers = Object.fromEntries(ids.map((id) => [id, '4']))
    const run = await begin(evalFiles(ids, answers))
    for (let deaths = 0; deaths < 12; deaths += 1) {
      host().app.restart(run.id)
      // The next one looks into its database as soon as it is asked for.
      await view(run.id)
      await host().live(10)
    }
    await host().live(60_000)
    expect((await results(run.id)).map(({ score }) => score)).toEqual([1, 1, 1, 1])
    const ended = await events(run.id, 'attempt.ended')
    expect(ended.map(({ data }) => Number(data['n'])).toSorted((a, b) => a - b)).toEqual([
      1, 2, 3, 4,
    ])
  })

  test('[EVR7] cancelling ends what has no result with an error that says so', async () => {
    const body = evalFiles(['a', 'b'], { a: '4', b: '4' })
    const run = await begin(body)
    const cancelled = await host().ok('POST', `${at}/${run.id}/cancel`, { reason: 'Wrong suite' })
    expect(cancelled).toMatchObject({ status: 'cancelled', reason: 'Wrong suite' })
    await host().live(1000)
    expect(await view(run.id)).toMatchObject({ status: 'cancelled', done: 2 })
    expect((await results(run.id)).map(({ error }) => error)).toEqual([
      'Wrong suite',
      'Wrong suite',
    ])
    expect((await events(run.id, 'run.ended')).length).toBe(1)
  })

  test('[EVR8] a run without any money begins nothing', async () => {
    const run = await begin({ ...evalFiles(['a'], { a: '4' }), budget: { moneyUsd: 0 } })
    await host().live(2000)
    expect(await view(run.id)).toMatchObject({ status: 'stopped', errors: 1 })
    expect((await results(run.id))[0]).toMatchObject({ error: "The run's budget is spent" })
  })

  test('[EVR9] a run that is deleted is gone here and in libSQL, and when it is old', async () => {
    const run = await begin(evalFiles(['a'], { a: '4' }))
    const old = await begin(evalFiles(['a'], { a: '4' }))
    await host().live(6000)
    const count = (id: string) =>
      host().rows(
        `select (select count(*) from eval_runs where id = ?1) as runs,
           (select count(*) from eval_results where eval_run_id = ?1) as results`,
        id,
      )
    expect(await count(run.id)).toEqual([{ runs: 1, results: 1 }])
    await host().call('DELETE', `${at}/${run.id}`)
    expect(await host().refusal('GET', `${at}/${run.id}`)).toEqual([404, 'not_found'])
    await host().live(6000)
    expect(await count(run.id)).toEqual([{ runs: 0, results: 0 }])
    await host().live(86_400_000 + 10_000)
    expect(await count(old.id)).toEqual([{ runs: 0, results: 0 }])
    expect(await host().refusal('GET', `${at}/${old.id}`)).toEqual([404, 'not_found'])
  })

  test('[EVR10] a deployment without objects for eval runs says so, and does all else', async () => {
    const { status, json } = await unconfigured().call('POST', at, evalFiles(['a'], { a: '4' }))
    expect([status, json.error.code]).toEqual([503, 'not_configured'])
    expect(json.error.message).toContain('no binding EVAL')
    expect(await unconfigured().refusal('GET', at)).toEqual([503, 'not_configured'])
    await unconfigured().ok('POST', '/v1/sessions', { sandbox: 'none' })
  })

  test('[EVR11] a target that approves needs a key that may approve', async () => {
    const body = {
      suite: 'sums.yaml',
      targets: 'targets.json',
      files: [
        ...evalFiles(['a'], {}).files.slice(0, 1),
        {
          path: 'targets.json',
          content: JSON.stringify({
            targets: [{ name: 'recorded', provider: 'opencode', permissions: 'once' }],
          }),
        },
      ],
    }
    const writer = await host().newKey('write')
    const { status, json } = await host().call('POST', at, body, writer)
    expect([status, json.error.code]).toEqual([403, 'forbidden'])
    expect(json.error.message).toContain('scope "approve"')
  })

  test('[EVR23] [EVR24] a comparison, a baseline and its gate', async () => {
    const ids = Array.from({ length: 12 }, (_, n) => `case-${n}`)
    const answers = (wrong: number) =>
      Object.fromEntries(ids.map((id, n) => [id, n < wrong ? '5' : '4']))
    const [good, worse] = [
      await begin({ ...evalFiles(ids, answers(0)), project: 'gated' }),
      await begin({ ...evalFiles(ids, answers(9)), project: 'gated' }),
    ]
    expect(await host().refusal('PUT', '/v1/evals/baselines', { evalRunId: good.id })).toEqual([
      409,
      'wrong_state',
    ])
    await host().live(6000)
    expect(await host().refusal('GET', `${at}/${worse.id}/gate`)).toEqual([404, 'not_found'])
    const baseline = { project: 'gated', dataset: 'sums', evalRunId: good.id, target: 'recorded' }
    expect(await host().ok('PUT', '/v1/evals/baselines', { evalRunId: good.id })).toMatchObject(
      baseline,
    )
    const found = await host().ok('GET', '/v1/evals/baselines?project=gated&dataset=sums')
    expect(found).toMatchObject(baseline)
    const gate = await host().ok('GET', `${at}/${worse.id}/gate`)
    expect(gate).toMatchObject({ outcome: 'fail', hash: (await view(worse.id)).hash })
    expect((await host().ok('GET', `${at}/${good.id}/gate`)).outcome).toBe('pass')
    const { digest } = await view(good.id)
    const rule = { interval: null, minCases: 5, minScore: 0.5 }
    const easy = await begin({
      ...{ ...evalFiles(ids, answers(0)), project: 'gated', cases: ids.slice(6) },
    })
    // The same name, and only what is easy.
    const other = await begin({ ...evalFiles(ids.slice(6), answers(0)), project: 'gated' })
    await host().live(6000)
    await host().ok('PUT', '/v1/evals/baselines', { evalRunId: good.id, rule })
    expect(await host().ok('GET', `${at}/${good.id}/gate`)).toMatchObject({ outcome: 'pass' })
    expect(await host().ok('GET', `${at}/${easy.id}/gate`)).toMatchObject({
      outcome: 'inconclusive',
      reasons: ['6 cases of the baseline were not run', 'The score is 1, at least 0.5'],
    })
    expect(await host().ok('GET', `${at}/${other.id}/gate`)).toMatchObject({
      outcome: 'inconclusive',
      reasons: expect.arrayContaining(['The run is of another suite than the baseline']),
    })
    expect((await view(easy.id)).digest).toBe(digest)
    const compared = await host().ok('GET', `${at}/${worse.id}/comparison?baseline=${good.id}`)
    expect(compared.comparison).toMatchObject({ comparable: true, score: { verdict: 'worse' } })
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    for (const path of ['gate', `comparison?baseline=${good.id}`])
      expect(await host().refusal('GET', `${at}/${worse.id}/${path}`, undefined, stranger)).toEqual(
        [404, 'not_found'],
      )
    await host().call('DELETE', `${at}/${good.id}`)
    await host().live(6000)
    expect(await host().ok('GET', `${at}/${easy.id}/gate`)).toMatchObject({
      outcome: 'inconclusive',
      reasons: ['6 cases of the suite were not run', 'The score is 1, at least 0.5'],
    })
    expect((await host().ok('GET', `${at}/${worse.id}/gate`)).outcome).not.toBe('pass')
  })
})
