import { describe, expect, test } from 'vitest'
import { useHost } from '../support/host.ts'

const host = useHost()
const part = { sessionId: 's', messageId: 'm', partId: 'p' }

async function begin() {
  const configurationId = await host().configuration()
  const session = await host().begin({ configurationId })
  return { session, configurationId }
}
type Scene = Awaited<ReturnType<typeof begin>>

/** Submits, and the agent fetches what it is told to fetch. */
async function submit({ session }: Scene, body: object) {
  const answer = host().ok('POST', `${session.at}/env`, body)
  const { id } = await session.agent.command('env')
  const path = `/sandbox/${session.id}/env`
  const fetched = await host().ok('GET', path, undefined, session.token)
  session.agent.result(id)
  return { answer: await answer, fetched }
}
const keptIn = async ({ configurationId }: Scene): Promise<string[]> => {
  const { items } = await host().ok('GET', `/v1/secrets?configurationId=${configurationId}`)
  return items.map(({ name }: { name: string }) => name).toSorted()
}

describe('[TOOL8] submitted values', () => {
  test.each([
    [true, ['A', 'C']],
    [false, ['C']],
  ])(
    'are kept as `persist` says, else as saveToConfiguration: %s',
    async (saveToConfiguration, kept) => {
      const scene = await begin()
      const values = [
        { key: 'A', value: 'value-a' },
        { key: 'B', value: 'value-b', persist: false },
        { key: 'C', value: 'value-c', persist: true },
        { key: 'D', value: 'plain', type: 'env', persist: true },
      ]
      const { answer, fetched } = await submit(scene, { values, saveToConfiguration })
      expect(await keptIn(scene)).toEqual(kept)
      expect(answer.sandbox).toBe('written')
      const persisted = answer.results.filter((each: { persisted: boolean }) => each.persisted)
      expect(persisted.map(({ key }: { key: string }) => key)).toEqual(kept)
      expect(fetched.values).toEqual({ A: 'value-a', B: 'value-b', C: 'value-c', D: 'plain' })
      const next = await host().begin({ configurationId: scene.configurationId })
      const path = `/sandbox/${next.id}/env`
      const later = await host().ok('GET', path, undefined, next.token)
      expect(Object.keys(later.values).toSorted()).toEqual(kept)
    },
  )

  test('[TOOL10] are added to earlier ones, which stay unless they are to be replaced', async () => {
    const scene = await begin()
    await submit(scene, { values: [{ key: 'A', value: 'first-a' }] })
    const second = {
      values: [
        { key: 'A', value: 'second-a' },
        { key: 'B', value: 'first-b' },
      ],
    }
    const { answer, fetched } = await submit(scene, second)
    expect(fetched.values).toEqual({ A: 'first-a', B: 'first-b' })
    expect(answer.results).toMatchObject([{ alreadyExisted: true }, { alreadyExisted: false }])
    const third = await submit(scene, { ...second, replace: true })
    expect(third.fetched.values).toEqual({ A: 'second-a', B: 'first-b' })
  })

  test('[SEC1] are hidden in what is stored from then on', async () => {
    const scene = await begin()
    const { session } = scene
    const message = 'The key is value-a-0123456789'
    await submit(scene, { values: [{ key: 'A', value: 'value-a-0123456789' }] })
    session.agent.emit('agent.notice', { message })
    await host().live()
    const [told] = await session.events('agent.notice')
    expect(told.data.message).toBe('The key is [secret:A]')
  })

  test('are pending while the sandbox cannot be reached, and written once it can be', async () => {
    const { session } = await begin()
    session.agent.close()
    const answer = host().ok('POST', `${session.at}/env`, {
      values: [{ key: 'A', value: 'value-a' }],
    })
    await host().live(11_000)
    expect((await answer).sandbox).toBe('pending')
    await session.connect()
    await session.agent.meet()
    expect(await session.agent.command('env')).toMatchObject({ body: {} })
  })
})

test('[TOOL7] the streamed start of request_env_variables is a request, until a submission', async () => {
  const scene = await begin()
  const { session } = scene
  const turn = await session.prompt()
  const input = { keys: [{ key: 'TOKEN', suggestions: ['from the dashboard'] }] }
  const tool = { tool: 'request_env_variables', callId: 'c1', input }
  session.agent.emit('tool.started', { ...part, turnId: turn.id, ...tool })
  await host().live()
  const requests = async () => (await host().ok('GET', `${session.at}/env-requests`)).items
  expect(await requests()).toMatchObject([
    { state: 'open', keys: [{ key: 'TOKEN', type: 'secret', required: true }] },
  ])
  expect((await session.events('tool.started'))[0].data.input).toEqual(input)
  await submit(scene, { values: [{ key: 'TOKEN', value: 'abc-def-ghi' }] })
  const [closed] = await requests()
  expect(closed.state).toBe('closed')
  // When it was closed does not change with what is given later.
  await host().live(5000)
  await submit(scene, { values: [{ key: 'OTHER', value: 'ghi-def-abc' }] })
  expect(await requests()).toEqual([closed])
})

test('[TOOL6] [TOOL9] env files that a setup session saved are filled from the secrets of the next', async () => {
  const configurationId = await host().configuration()
  const setup = await host().begin({ configurationId, sessionType: 'setup' })
  const keys = [{ key: 'DB_URL', required: true }]
  const file = { workspacePath: '.', path: '.env.local', format: 'dotenv', mode: 'secret', keys }
  expect((await setup.callback('save_env_files', { files: [file] })).json.success).toBe(true)
  const value = 'postgres://host/db'
  await host().ok('PUT', '/v1/secrets/DB_URL', { value, configurationId })
  const stored = await host().ok('GET', `/v1/configurations/${configurationId}`)
  expect(stored.envFiles).toEqual([file])
  const session = await host().begin({ configurationId, idleTimeoutSeconds: 60 })
  const env = await host().ok('GET', `/sandbox/${session.id}/env`, undefined, session.token)
  expect(env.files).toEqual([{ path: '.env.local', content: `DB_URL=${value}\n` }])
  session.sandbox.files.set('.env.local', `DB_URL=${value}\n`)
  expect((await session.callback('save_snapshot')).json.success).toBe(true)
  await host().live(62_000)
  expect((await session.view()).sandbox.state).toBe('stopped')
  for (const { files, sessionId } of host().sandboxes.snapshots.values())
    if (sessionId === session.id) expect(files.has('.env.local')).toBe(false)
})

test('[SEC5] the configuration’s value counts before the organisation’s', async () => {
  const configurationId = await host().configuration()
  await host().ok('PUT', '/v1/secrets/BOTH', { value: 'of-the-organisation' })
  await host().ok('PUT', '/v1/secrets/BOTH', { value: 'of-the-configuration', configurationId })
  await host().ok('PUT', '/v1/secrets/ONE', { value: 'only-organisation' })
  const session = await host().begin({ configurationId })
  const env = await host().ok('GET', `/sandbox/${session.id}/env`, undefined, session.token)
  expect(env.values).toEqual({ BOTH: 'of-the-configuration', ONE: 'only-organisation' })
})
