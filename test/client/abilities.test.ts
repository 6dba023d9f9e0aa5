import { describe, expect, test } from 'vitest'
import { GantryClient } from '../../src/client/client.ts'
import { GantryError } from '../../src/client/transport.ts'
import { useHost } from '../support/host.ts'

// The typed client against the real application: nothing of the deployment is replaced but the way to it.

const host = useHost()

/** `lose` drops answers: the request has arrived, and nobody hears of it. */
function clientOf(lose: (request: Request) => boolean = () => false): GantryClient {
  return new GantryClient({
    ...{ url: 'http://gantry.test/', key: host().key, retryMs: 1 },
    fetch: async (request) => {
      const response = await host().app.app.request(request.clone())
      if (lose(request)) throw new Error('gone')
      return response
    },
  })
}

const yaml = `
name: two/steps
description: Two steps
steps: [{ id: a, run: echo 1 }, { id: b, run: echo 2, on_failure: ask }]
`

describe('[CLI1] abilities', () => {
  test('list, get, validate, plan, execute, status, resume and waitFor', async () => {
    const client = clientOf()
    await host().ok('PUT', '/v1/abilities', { files: [{ path: 'a.yaml', content: yaml }] })
    const names: string[] = []
    for await (const { name } of client.abilities.list()) names.push(name)
    expect(names).toEqual(['two/steps'])
    expect((await client.abilities.get('two/steps')).definition?.steps).toHaveLength(2)
    expect((await client.abilities.validate({ source: 'x: 1' })).valid).toBe(false)
    const session = await host().begin()
    const plan = await client.abilities.plan(session.id, 'two/steps')
    expect(plan.steps.map(({ what }) => what)).toEqual(['echo 1', 'echo 2'])
    const { id } = await client.abilities.execute(session.id, {
      ...{ ability: 'two/steps', planHash: plan.planHash },
    })
    await host().live()
    expect(await client.abilities.files(id)).toEqual({ files: [{ path: 'a.yaml', content: yaml }] })
    await session.agent.execute({ output: 'one', exitCode: 0 })
    await host().live()
    expect(await client.abilities.active(session.id)).toMatchObject({ progress: '1/2' })
    await session.agent.execute({ status: 'failed', exitCode: 1, error: 'x' })
    const asks = await client.abilities.waitFor(id, { orAsks: true })
    expect(asks.waitsFor).toMatchObject([{ stepId: 'b' }])
    await client.abilities.resume(id, 'b', 'skip')
    const ended = client.abilities.waitFor(id)
    await host().live()
    expect((await ended).status).toBe('completed')
    expect((await client.abilities.status(id)).steps.map(({ status }) => status)).toEqual([
      ...['completed', 'skipped'],
    ])
  })

  test('cancel; and what is refused has the code and the words of the deployment', async () => {
    const client = clientOf()
    const session = await host().begin()
    const { id } = await client.abilities.execute(session.id, { ability: 'two/steps' })
    const second = client.abilities.execute(session.id, { ability: 'two/steps' })
    await expect(second).rejects.toMatchObject({
      ...{ code: 'wrong_state', status: 409, message: 'Already executing ability: two/steps' },
    })
    expect((await client.abilities.cancel(id, 'enough')).status).toBe('cancelled')
    await expect(client.abilities.get('nothing')).rejects.toThrow(GantryError)
  })
})

test('[CLI2] an answer that is lost is asked for again, and an execution is begun once', async () => {
  let left = 2
  const client = clientOf((request) => request.url.endsWith('/executions') && left-- > 0)
  const session = await host().begin()
  const { id } = await client.abilities.execute(session.id, { ability: 'two/steps' })
  expect((await host().ok('GET', `${session.at}/executions`)).items).toMatchObject([{ id }])
  const never = clientOf(() => true)
  await expect(never.abilities.cancel(id)).rejects.toMatchObject({ code: null, status: null })
})

test('[CLI3] events come once and in order, also over streams that break', async () => {
  let streams = 0
  const client = new GantryClient({
    ...{ url: 'http://gantry.test', key: host().key },
    fetch: async (request) => {
      streams += 1
      const response = await host().app.app.request(request)
      // The first two streams end after the first chunk.
      if (streams > 2 || !response.body) return response
      const reader = response.body.getReader()
      const { value } = await reader.read()
      await reader.cancel()
      return new Response(value as never, response)
    },
  })
  const session = await host().begin()
  const { id } = await clientOf().abilities.execute(session.id, { ability: 'two/steps' })
  await host().live()
  await session.agent.execute({ exitCode: 0 })
  await host().live()
  await session.agent.execute({ exitCode: 0 })
  await host().live()
  const seen: number[] = []
  for await (const event of client.events(session.id)) {
    seen.push(event.seq)
    if (event.kind === 'ability.ended' && event.data['executionId'] === id) break
  }
  expect(streams).toBeGreaterThan(2)
  expect(seen).toEqual(seen.map((_, at) => at + 1))
})
