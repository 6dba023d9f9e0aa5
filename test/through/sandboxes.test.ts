import { describe, expect, test } from 'vitest'
import { AppError, type ErrorCode } from '../../src/contract/error.ts'
import { linkClose } from '../../src/contract/link.ts'
import { testOperatorKey } from '../support/app.ts'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()

/** The next sandbox is there at once, but the provider answers only when it is told to. */
function holdAnswer(): { answer: (code?: 'unprocessable' | 'sandbox_unavailable') => void } {
  const { sandboxes } = host()
  const answered = Promise.withResolvers<ErrorCode | undefined>()
  const create = sandboxes.create.bind(sandboxes)
  sandboxes.create = async (spec) => {
    sandboxes.create = create
    const { info } = sandboxes.place(spec)
    const code = await answered.promise
    if (code !== undefined) throw new AppError(code, 'Something else')
    return info
  }
  return { answer: answered.resolve }
}

/** The session's sandbox has ended, and its provider says so. */
function end(session: HostSession): void {
  session.sandbox.info = { ...session.sandbox.info, state: 'exited', reason: 'exit code 1' }
  session.agent.close()
}
const kinds = async (session: HostSession) =>
  (await session.events()).map(({ kind }: { kind: string }) => kind)

describe('a start', () => {
  test('[BOX2] [SES11] the provider is told what the session is to run on', async () => {
    const session = await host().create({
      repository: { url: 'https://git.test/shop.git', ref: 'main', token: 'clone-token-1' },
      limits: { memoryMb: 512, processes: 50, lifetimeSeconds: 900 },
    })
    expect(session.spec).toMatchObject({
      sessionId: session.id,
      generation: 1,
      gatewayUrl: 'http://gantry.test',
      repository: { url: 'https://git.test/shop.git', ref: 'main', token: 'clone-token-1' },
      snapshotId: null,
      limits: { memoryMb: 512, processes: 50, lifetimeSeconds: 900 },
    })
    await session.meet()
    expect(session.file('instructions.md')).not.toContain('clone-token-1')
    expect(await session.view()).toMatchObject({
      sandbox: { state: 'ready', generation: 1, connected: true },
      repository: { url: 'https://git.test/shop.git' },
    })
    const lines = host().app.logs.filter(({ message }) => message === 'Sandbox ready')
    expect(lines.map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ sessionId: session.id, generation: 1, bootMs: 1 }),
    )
    const rows = await host().rows(
      'select provider, generation, sandbox_state from sessions where id = ?',
      session.id,
    )
    expect(rows).toEqual([{ provider: 'local', generation: 1, sandbox_state: 'ready' }])
  })

  test('[LIFE3] an answer of the provider that is lost makes no second sandbox', async () => {
    host().sandboxes.losesAnswers = 1
    const before = host().sandboxes.running.size
    const session = await host().create()
    await host().live(5000)
    await session.meet()
    expect((await session.view()).sandbox).toMatchObject({ state: 'ready', generation: 1 })
    expect(host().sandboxes.running.size).toBe(before + 1)
  })

  test.each([
    [undefined, true],
    ['unprocessable', true],
    ['unprocessable', false],
    ['sandbox_unavailable', true],
    ['sandbox_unavailable', false],
  ] as const)(
    '[LIFE3] one whose agent calls before the provider has answered is kept, though the answer is %s (ready: %s)',
    async (code, ready) => {
      const held = holdAnswer()
      const session = await host().create()
      const agent = await session.meet({ ready })
      held.answer(code)
      await host().live(60_000)
      if (!ready) agent.send({ t: 'ready', bootMs: 1 })
      await host().live()
      const kept = { state: 'ready', generation: 1, failures: [], reason: null }
      expect((await session.view()).sandbox).toMatchObject(kept)
      expect(host().sandboxes.running.has(`${session.id}.1`)).toBe(true)
    },
  )

  test('[LIFE15] an answer about a replaced one says nothing of the next', async () => {
    const first = holdAnswer()
    const session = await host().create()
    await host().ok('POST', `${session.at}/replace`)
    const second = holdAnswer()
    await host().live(61_000)
    first.answer()
    await host().live()
    expect((await session.view()).sandbox).toMatchObject({ state: 'creating', generation: 2 })
    second.answer()
    await host().live()
    await session.meet()
    expect([...host().sandboxes.running.keys()].filter((id) => id.startsWith(session.id))).toEqual([
      `${session.id}.2`,
    ])
  })

  test('[LIFE19] one that appears after the session was closed is stopped again', async () => {
    const held = holdAnswer()
    const session = await host().create()
    const spec = { ...session.spec }
    await host().ok('POST', `${session.at}/close`, {})
    await host().live(1000)
    host().sandboxes.place(spec)
    held.answer()
    await host().live(60_000)
    expect(host().sandboxes.running.has(`${session.id}.1`)).toBe(false)
  })

  test('[LIFE2] one that never calls is replaced, and in the end given up with the reasons', async () => {
    const session = await host().create()
    await host().live(11 * 60_000)
    const { sandbox } = await session.view()
    expect(sandbox).toMatchObject({ state: 'failed', generation: 3 })
    expect(sandbox.failures).toHaveLength(3)
    expect([...host().sandboxes.running.keys()].filter((id) => id.startsWith(session.id))).toEqual(
      [],
    )
    expect(await host().refusal('POST', `${session.at}/prompts`, { text: 'x' })).toEqual([
      409,
      'wrong_state',
    ])
    await host().ok('POST', `${session.at}/retry`)
    await host().live()
    await session.meet()
    expect((await session.view()).sandbox).toMatchObject({ state: 'ready', failures: [] })
  })
})

describe('a loss', () => {
  test('[BOX3] [BOX4] [LIFE5] [LIFE7] the turn is interrupted, the next sandbox works, and the model is told', async () => {
    const session = await host().begin()
    const turn = await session.prompt({ text: 'paint the wall' })
    end(session)
    await host().live(61_000)
    expect(await host().ok('GET', `/v1/turns/${turn.id}`)).toMatchObject({ state: 'interrupted' })
    expect(session.spec.generation).toBe(2)
    await session.meet()
    await session.prompt({ text: 'go on' })
    const [prompt] = session.agent.commands('prompt')
    expect(prompt?.body.notice).toContain('paint the wall')
    expect(prompt?.body.notice).toContain('workspace starts anew')
    expect(session.agent.commands('prompt')).toHaveLength(1)
    expect(await kinds(session)).toEqual(
      expect.arrayContaining(['link.disconnected', 'sandbox.replaced']),
    )
    await host().live(6000)
    const places = await host().rows(
      'select generation, outcome from sandbox_reservations where session_id = ? order by generation',
      session.id,
    )
    expect(places).toMatchObject([{ generation: 1, outcome: 'lost' }, { generation: 2 }])
  })

  test('[BOX3] a link that is lost is no lost sandbox: it comes back, and its turn goes on', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    session.agent.close()
    await host().live(4000)
    expect((await session.view()).sandbox.state).toBe('suspect')
    await session.connect()
    await session.agent.meet()
    await host().live()
    expect((await session.view()).sandbox).toMatchObject({ state: 'ready', generation: 1 })
    expect(await host().ok('GET', `/v1/turns/${turn.id}`)).toMatchObject({ state: 'running' })
  })

  test('[LIFE21] an agent that is silent for a minute has lost its link', async () => {
    const session = await host().begin()
    host().app.hush(session.id)
    await host().live(130_000)
    expect(await kinds(session)).toContain('link.disconnected')
  })

  test('[LIFE5] with replacement manual it stays lost until somebody asks', async () => {
    const session = await host().begin({ replacement: 'manual' })
    end(session)
    await host().live(120_000)
    expect((await session.view()).sandbox).toMatchObject({ state: 'lost', generation: 1 })
    await host().ok('POST', `${session.at}/replace`)
    await host().live(61_000)
    expect(session.spec.generation).toBe(2)
  })
})

describe('[LIFE15] [SES9] a sandbox that was replaced', () => {
  test('can open nothing, call nothing and say nothing any more', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    const { token, agent } = session
    await host().ok('POST', `${session.at}/replace`)
    expect((await session.callback('verify', {}, 'late', token)).json.error.code).toBe(
      'old_generation',
    )
    for (const path of ['manifest', 'env'])
      expect(
        (await host().refusal('GET', `/sandbox/${session.id}/${path}`, undefined, token))[0],
      ).toBe(403)
    expect((await host().refusal('POST', '/llm/anthropic/v1/messages', {}, token))[1]).toBe(
      'old_generation',
    )
    expect(await host().app.link(session.id, token)).toBe(null)
    agent.emit('message.text', {
      ...{ turnId: turn.id, sessionId: 's', messageId: 'm', partId: 'p' },
      ...{ text: 'late', reasoning: false },
    })
    await host().live()
    expect((await agent.closed).code).toBe(linkClose.fenced)
    expect(await session.events('message.text')).toEqual([])
  })
})

describe('sleep', () => {
  test('[LIFE9] [LIFE10] unused it is saved and stopped; a prompt wakes it with all its files', async () => {
    const session = await host().begin({ idleTimeoutSeconds: 60 })
    const turn = await session.prompt()
    session.sandbox.files.set('a.txt', 'work')
    await host().live(59_000)
    session.agent.endTurn(turn.id)
    await host().live(59_000)
    expect((await session.view()).sandbox.state).toBe('ready')
    await host().live(3000)
    expect((await session.view()).sandbox.state).toBe('stopped')
    expect(host().sandboxes.running.has(`${session.id}.1`)).toBe(false)
    const [hibernated] = await session.events('sandbox.hibernated')
    await host().ok('POST', `${session.at}/prompts`, { text: 'on' })
    await host().live()
    expect(session.spec).toMatchObject({ generation: 2, snapshotId: hibernated.data.snapshotId })
    expect(session.sandbox.files.get('a.txt')).toBe('work')
    await session.meet()
    expect(session.agent.commands('prompt')).toMatchObject([{ body: { text: 'on' } }])
    const rows = await host().rows('select id from snapshots where session_id = ?', session.id)
    expect(rows).toEqual([{ id: hibernated.data.snapshotId }])
  })

  test('[LIFE11] [SES12] reading does not wake it', async () => {
    const session = await host().begin({ idleTimeoutSeconds: 60 })
    await host().live(61_000)
    for (const path of ['', '/events', '/turns', '/runs', '/artifacts', '/diff', '/budget'])
      await host().ok('GET', `${session.at}${path}`)
    await host().live(60_000)
    expect((await session.view()).sandbox).toMatchObject({ state: 'stopped', generation: 1 })
  })

  test('[LIFE12] [SNAP3] what cannot be saved stays awake, and says why', async () => {
    const configurationId = await host().configuration()
    await host().ok('PUT', '/v1/secrets/DB_PASSWORD', { value: 'hunter2-hunter2', configurationId })
    const session = await host().begin({ idleTimeoutSeconds: 60, configurationId })
    session.sandbox.files.set('notes.txt', 'it is hunter2-hunter2')
    await host().live(62_000)
    expect((await session.view()).sandbox.state).toBe('ready')
    expect(await session.events('sandbox.kept')).toMatchObject([
      { data: { reason: expect.stringContaining('"DB_PASSWORD" is in "notes.txt"') } },
    ])
  })

  test('[LIFE13] a lease is extended while it is ready', async () => {
    const session = await host().begin({ idleTimeoutSeconds: null })
    const first = session.sandbox.endsAt
    await host().live(55 * 60_000)
    expect(session.sandbox.endsAt).toBeGreaterThan(first)
    expect((await session.view()).sandbox.state).toBe('ready')
  })

  test('[LIFE28] in use it is saved every ten minutes', async () => {
    const session = await host().begin()
    await session.prompt()
    await host().live(10 * 60_000 + 1000)
    const { id } = session
    expect(
      [...host().sandboxes.snapshots.values()].filter((each) => each.sessionId === id),
    ).toHaveLength(1)
  })
})

describe('an end', () => {
  test('[SES5] close stops the sandbox, denies what is asked and refuses what comes', async () => {
    const session = await host().begin({ gate: { ask: ['bash'] } })
    const turn = await session.prompt()
    const askId = await session.ask('bash')
    const { token } = session
    await host().ok('POST', `${session.at}/close`, { reason: 'done with it' })
    await host().live()
    expect(session.agent.answerTo(askId)?.decision).toBe('deny')
    expect(host().sandboxes.running.has(`${session.id}.1`)).toBe(false)
    expect(await host().ok('GET', `/v1/turns/${turn.id}`)).toMatchObject({ state: 'interrupted' })
    expect((await session.callback('verify', {}, 'new', token)).json.error.code).toBe(
      'session_closed',
    )
    const rows = await host().rows('select status from sessions where id = ?', session.id)
    expect(rows).toEqual([{ status: 'closed' }])
    await host().live(6000)
    expect(
      await host().rows(
        'select outcome, connected_at, ended_at from sandbox_reservations where session_id = ?',
        session.id,
      ),
    ).toEqual([
      { outcome: 'stopped', connected_at: expect.any(Number), ended_at: expect.any(Number) },
    ])
  })

  test('[SES6] delete erases it here and in libSQL', async () => {
    const session = await host().begin()
    await session.prompt()
    await session.callback('verify', { folder: 1 })
    expect((await host().call('DELETE', session.at)).status).toBe(204)
    await host().live(5000)
    expect(await host().refusal('GET', session.at)).toEqual([404, 'not_found'])
    for (const table of ['sessions where id', 'runs where session_id', 'turns where session_id'])
      expect(await host().rows(`select 1 from ${table} = ?`, session.id)).toEqual([])
  })

  test('[SES7] a closed one is deleted by itself after its time', async () => {
    const session = await host().begin()
    await host().ok('POST', `${session.at}/close`, {})
    host().app.pass(86_400_000)
    await host().live(60_000)
    expect(await host().refusal('GET', session.at)).toEqual([404, 'not_found'])
  })
})

describe('[FIRE11] the kill switch', () => {
  test('saves and stops every sandbox, and nothing starts until it is lifted', async () => {
    const session = await host().begin()
    session.sandbox.files.set('a.txt', 'kept')
    await host().ok('POST', '/v1/kill-switch', { on: true, reason: 'too much' })
    await host().live(40_000)
    expect(host().sandboxes.running.size).toBe(0)
    expect((await session.view()).sandbox.state).toBe('stopped')
    expect(await kinds(session)).toContain('sandbox.hibernated')
    const waiting = await host().create()
    expect((await waiting.view()).sandbox.state).toBe('requested')
    await host().ok('POST', '/v1/kill-switch', { on: false })
    await host().live(120_000)
    await waiting.meet()
    expect((await waiting.view()).sandbox.state).toBe('ready')
    await host().ok('POST', `${session.at}/prompts`, { text: 'on' })
    await host().live()
    expect(session.sandbox.files.get('a.txt')).toBe('kept')
  })

  test('[FIRE12] the deployment’s works for the operator alone', async () => {
    const path = '/v1/deployment/kill-switch'
    expect(await host().refusal('GET', path)).not.toEqual([200, undefined])
    expect(await host().ok('GET', path, undefined, testOperatorKey)).toMatchObject({ on: false })
  })
})

test('[FIRE1] [FIRE4] a limit of the project holds a session back until a place is free', async () => {
  const project = 'limited'
  await host().ok('PUT', `/v1/limits?project=${project}`, { concurrentSandboxes: 1 })
  const first = await host().begin({ project })
  const second = await host().create({ project })
  expect((await second.view()).sandbox).toMatchObject({
    state: 'requested',
    reason: expect.stringContaining('concurrentSandboxes'),
    retryAt: expect.any(Number),
  })
  await host().ok('POST', `${first.at}/close`, {})
  await host().live(61_000)
  expect(second.spec.generation).toBe(1)
})
