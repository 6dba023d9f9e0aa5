import { afterAll, describe, expect, test } from 'vitest'
import type { Session } from '../../src/contract/session.ts'
import { approvalOf, mintToken, notice, question, TestAgent } from '../support/agent.ts'
import { type FakeSandboxHost, startFakeSandboxHost } from '../support/sandbox-host.ts'
import { hosts, request, until, useStack } from '../support/stack.ts'

describe.each(hosts)('a replaced sandbox on %s', (host) => {
  let sandboxHost: FakeSandboxHost
  const stack = useStack(host, async () => {
    sandboxHost = await startFakeSandboxHost()
    return { env: sandboxHost.env }
  })
  afterAll(() => sandboxHost.close())

  /** All that a sandbox could change, as its owner sees it. */
  async function stateOf(session: Session) {
    const get = async (path: string) =>
      (await stack().api('GET', `/v1/sessions/${session.id}${path}`)).json
    const { outbox: _, ...view } = await get('')
    return {
      view,
      events: await get('/events?limit=500'),
      calls: await get('/calls'),
      approvals: await get('/approvals'),
    }
  }

  test.each(['none', 'local'] as const)(
    '[SES9] everything that the old one of provider "%s" sends is refused and changes nothing',
    async (provider) => {
      const session = await stack().createSession({ sandbox: provider, gate: { ask: ['bash'] } })
      const old = await stack().token(session)
      const link = TestAgent.dial(stack().url, session.id, old)
      await link.greet()
      const settled = await stack().call(old, session, 'noop', 'settled')
      expect(settled.status).toBe(200)
      const replaced = await stack().api('POST', `/v1/sessions/${session.id}/replace`, {
        reason: 'test',
      })
      expect([replaced.status, replaced.json.sandbox.generation]).toEqual([200, 2])
      expect((await link.closed).code).toBe(4403)
      // The provider's news of the new one come in their own time.
      if (provider === 'local') {
        await until(
          () =>
            sandboxHost.running.has(`${session.id}.2`) &&
            !sandboxHost.running.has(`${session.id}.1`),
        )
        await until(async () => (await stateOf(session)).view.sandbox.state === 'booting')
      }
      const before = await stateOf(session)

      const expired = await stack().token(session, { at: Date.now() - 2 * 3600_000 })
      const url = `${stack().url}/sandbox/${session.id}`
      const answers = await Promise.all([
        stack().call(old, session, 'noop', 'settled'),
        stack().call(old, session, 'noop', 'new'),
        request('GET', `${url}/manifest`, old),
        request('PUT', `${url}/artifacts`, old, 'bytes', {
          'content-type': 'application/octet-stream',
        }),
        request('POST', `${stack().url}/llm/anthropic/v1/messages`, old, {}),
      ])
      expect(answers.map(({ status, json }) => [status, json.error.code])).toEqual(
        answers.map(() => [403, 'old_generation']),
      )
      for (const token of [old, expired]) {
        expect(await TestAgent.dial(stack().url, session.id, token).opened()).toBe(false)
      }
      link.send({ t: 'events', items: [notice(1)] })
      expect(await stateOf(session)).toEqual(before)

      const fresh = await mintToken(stack().env, {
        sessionId: session.id,
        organisationId: stack().organisationId,
        generation: 2,
      })
      expect((await stack().call(fresh, session, 'noop', 'settled')).text).toBe(settled.text)
      expect((await stack().call(fresh, session, 'noop', 'new')).status).toBe(200)
      await until(async () => {
        const [row] = await stack().db.all<{ generation: number }>(
          'select generation from sessions where id = ?',
          session.id,
        )
        return row?.generation === 2
      })
    },
  )

  test('[SES9] a call of the old sandbox that waits for it is answered, not left waiting', async () => {
    for (const sandbox of ['none', 'local']) {
      const session = await stack().createSession({ sandbox })
      const token = await stack().token(session)
      const link = TestAgent.dial(stack().url, session.id, token)
      await link.greet()
      const waiting = stack().call(token, session, 'verify', 'v')
      await link.next('command')
      await stack().api('POST', `/v1/sessions/${session.id}/replace`, {})
      expect((await waiting).json.success).toBe(false)
    }
  })

  test('[GATE4] replacement denies the open ask and interrupts the turn; a later allow is refused', async () => {
    const session = await stack().createSession({ sandbox: 'local', gate: { ask: ['bash'] } })
    await until(() => sandboxHost.running.has(`${session.id}.1`))
    const link = TestAgent.dial(stack().url, session.id, await stack().token(session))
    await link.greet()
    const turn = await stack().api('POST', `/v1/sessions/${session.id}/prompts`, { text: 'go' })
    await link.next('command')
    const askId = `ask_${'0'.repeat(20)}`
    link.send(question(askId, 'bash'))
    await until(
      async () =>
        (await stack().api('GET', `/v1/sessions/${session.id}/approvals`)).json.items.length === 1,
    )
    await stack().api('POST', `/v1/sessions/${session.id}/replace`, { reason: 'test' })
    expect((await stack().api('GET', `/v1/turns/${turn.json.id}?wait=5`)).json).toMatchObject({
      state: 'interrupted',
    })
    const approvalId = approvalOf(session.id, askId)
    const late = await stack().api('POST', `/v1/approvals/${approvalId}/resolve`, {
      resolution: 'approved',
    })
    expect([late.status, late.json.error.code]).toEqual([409, 'wrong_state'])
    const { json } = await stack().api('GET', `/v1/approvals/${approvalId}`)
    expect(json).toMatchObject({ state: 'cancelled', resolution: { actor: 'replace' } })
    // Denied before the socket was closed.
    await expect
      .poll(() => link.messages)
      .toContainEqual(expect.objectContaining({ t: 'answer', askId, decision: 'deny' }))
  })
})
