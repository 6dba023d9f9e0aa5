import { describe, expect, onTestFinished, test } from 'vitest'
import { HostSession, useHost } from '../support/host.ts'
import { hasSignature, useReceiver } from '../support/webhook-receiver.ts'

const host = useHost({ publicUrl: 'http://127.0.0.1:1' })
const receiver = useReceiver()

describe('webhooks', () => {
  const hook = async (path: string, ...events: string[]) => {
    const body = { url: receiver.url(path), events, project: path.slice(1) }
    return await host().ok('POST', '/v1/webhooks', body)
  }

  test('[HOOK3] [HOOK8] [APR11] an approval that is asked for is posted, signed, with what a person decides on', async () => {
    const { secret } = await hook('/ask', 'approval.requested')
    const session = await host().begin({ project: 'ask', gate: { ask: ['bash'] }, title: 'Shop' })
    await session.prompt({ text: 'sweep' })
    const askId = await session.ask('bash', { command: 'rm -rf build' })
    await host().live(1000)
    const [post] = receiver.at('/ask')
    expect(post && hasSignature(post, secret, host().now)).toBe(true)
    expect(post?.json).toMatchObject({
      event: 'approval.requested',
      sessionId: session.id,
      data: {
        approvalId: session.approvalOf(askId),
        details: { command: 'rm -rf build', tool: 'bash' },
        sessionTitle: 'Shop',
        intent: 'sweep',
      },
    })
  })

  test('[HOOK4] [HOOK12] a run’s end is posted until somebody takes it, under one id', async () => {
    const { id } = await hook('/end', 'run.ended')
    receiver.behave('/end', 500, 204)
    const session = await host().begin({ project: 'end' })
    const turn = await session.prompt()
    session.agent.endTurn(turn.id)
    await host().live(60_000)
    const posts = receiver.at('/end')
    expect(posts).toHaveLength(2)
    expect(posts[0]?.text).toBe(posts[1]?.text)
    expect(posts[0]?.json).toMatchObject({
      event: 'run.ended',
      runId: turn.runId,
      data: { status: 'completed' },
    })
    await host().live(6000)
    const { items } = await host().ok('GET', `/v1/webhooks/${id}/deliveries`)
    expect(items).toMatchObject([{ state: 'delivered', attempts: 2, lastStatus: 204 }])
  })

  test('[HOOK8] a sandbox that is lost is posted; other projects and events are not', async () => {
    await hook('/lost', 'sandbox.lost')
    await hook('/elsewhere', 'sandbox.lost')
    const session = await host().begin({ project: 'lost' })
    await session.prompt()
    session.sandbox.info = { ...session.sandbox.info, state: 'exited', reason: 'exit code 1' }
    session.agent.close()
    await host().live(30_000)
    expect(receiver.at('/lost')).toMatchObject([{ json: { event: 'sandbox.lost' } }])
    expect(receiver.at('/elsewhere')).toEqual([])
    await host().ok('POST', `${session.at}/close`, {})
    await host().live(1000)
  })
})

describe('a warm pool', () => {
  /** A configuration with a full pool, and its warm sessions. */
  async function fill(size: number, body: object = {}) {
    const configurationId = await host().configuration({ warmPool: { size }, ...body })
    // Sandboxes whose agents never call would open the breaker for the next test.
    onTestFinished(async () => {
      const path = `/v1/configurations/${configurationId}`
      await host().ok('PATCH', path, { warmPool: { size: 0 } })
      await host().live(1000)
    })
    await host().live(1000)
    const organisationId = await host().organisationId()
    const warm: HostSession[] = []
    for (const [id, actor] of host().app.sessions) {
      const view = await actor.api.self.view({ organisationId }).catch(() => null)
      if (view?.configurationId !== configurationId) continue
      const session = new HostSession(host(), id)
      await session.meet()
      warm.push(session)
    }
    await host().live(1000)
    return { configurationId, warm }
  }
  const pool = (configurationId: string) =>
    host().ok('GET', `/v1/configurations/${configurationId}/warm-pool`)

  test('[WARM1] [WARM4] [WARM9] has as many ready as it says; a session takes one, with its own title, and it is filled again', async () => {
    const { configurationId, warm } = await fill(1)
    expect(await pool(configurationId)).toMatchObject({ size: 1, ready: 1 })
    const made = await host().ok('POST', '/v1/sessions', {
      configurationId,
      title: 'mine',
      gate: { deny: ['bash'] },
      idleTimeoutSeconds: 60,
      budget: { toolCalls: 7 },
    })
    expect(made).toMatchObject({ id: warm[0]?.id, title: 'mine', status: 'open' })
    expect(made.sandbox.state).toBe('ready')
    const [session] = warm as [HostSession]
    await session.prompt()
    expect(session.agent.answerTo(await session.ask('bash'))?.decision).toBe('deny')
    expect((await host().ok('GET', `${session.at}/budget`)).limits).toEqual({ toolCalls: 7 })
    await host().live(1000)
    expect(await pool(configurationId)).toMatchObject({ ready: 0, starting: 1 })
  })

  test('[WARM7] what was fixed at boot must be as the session wants it', async () => {
    const { configurationId, warm } = await fill(1)
    const other = { configurationId, system_prompt: 'Be brief.' }
    expect((await host().ok('POST', '/v1/sessions', other)).id).not.toBe(warm[0]?.id)
    await host().ok('PUT', '/v1/secrets/NEW', { value: 'since-then', configurationId })
    const made = await host().ok('POST', '/v1/sessions', { configurationId })
    expect(made.id).not.toBe(warm[0]?.id)
  })

  test('[WARM13] an agent that is silent is not given', async () => {
    const { configurationId, warm } = await fill(1)
    host().app.hush(warm[0]?.id ?? '')
    host().app.pass(61_000)
    expect((await host().ok('POST', '/v1/sessions', { configurationId })).id).not.toBe(warm[0]?.id)
  })

  test('[WARM2] refuses what only an open session takes', async () => {
    const { warm } = await fill(1)
    const [session] = warm as [HostSession]
    expect(await host().refusal('POST', `${session.at}/prompts`, { text: 'x' })).toEqual([
      409,
      'wrong_state',
    ])
    const values = [{ key: 'A', value: 'value-a' }]
    expect(await host().refusal('POST', `${session.at}/env`, { values })).not.toEqual([
      200,
      undefined,
    ])
  })
})
