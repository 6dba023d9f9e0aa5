import { afterAll, describe, expect, test } from 'vitest'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Turn } from '../../src/contract/turn.ts'
import { agentEvent, approvalOf, question, TestAgent } from '../support/agent.ts'
import { type FakeSandboxHost, startFakeSandboxHost } from '../support/sandbox-host.ts'
import { hostsOf, until, useStack } from '../support/stack.ts'

describe.each(hostsOf(import.meta.filename))('turns on %s', (host) => {
  let sandboxHost: FakeSandboxHost
  const stack = useStack(host, async () => {
    sandboxHost = await startFakeSandboxHost()
    return { env: sandboxHost.env }
  })
  afterAll(() => sandboxHost.close())

  const api = (
    method: string,
    session: Session,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) => stack().api(method, `/v1/sessions/${session.id}${path}`, body, { headers })
  const turnOf = async (id: string, wait = 0) =>
    (await stack().api('GET', `/v1/turns/${id}?wait=${wait}`)).json as Turn
  const askId = (n: number) => `ask_${String(n).padStart(20, '0')}`
  const resolve = (session: Session, n: number, resolution: 'approved' | 'rejected') =>
    stack().api('POST', `/v1/approvals/${approvalOf(session.id, askId(n))}/resolve`, { resolution })

  async function open(input: Record<string, unknown> = {}) {
    const session = await stack().createSession({ sandbox: 'local', ...input })
    await until(() => sandboxHost.running.has(`${session.id}.1`))
    const agent = TestAgent.dial(stack().url, session.id, await stack().token(session))
    await agent.greet()
    let seq = 0
    return {
      session,
      agent,
      prompt: async (text: string, body: object = {}, headers: Record<string, string> = {}) =>
        api('POST', session, '/prompts', { text, ...body }, headers),
      end: (turnId: string, state = 'completed') => {
        seq += 1
        const data = {
          turnId,
          state,
          reason: state === 'completed' ? null : 'because',
          text: 'said',
          diff: null,
        }
        agent.send({ t: 'events', items: [agentEvent(seq, 'turn.ended', data)] })
      },
      command: (id: string) => agent.next('command', (command) => command.id === id),
    }
  }

  test('[BOX2] a session asks for its sandbox once, and is ready when the agent says so', async () => {
    const { session } = await open()
    await until(async () => (await api('GET', session, '')).json.sandbox.state === 'ready')
    expect(sandboxHost.orders.filter((order) => order === `PUT ${session.id}.1`)).toHaveLength(1)
    const list = await until(async () => {
      const rows = await stack().db.all<{ sandbox_state: string }>(
        'select sandbox_state from sessions where id = ?',
        session.id,
      )
      return rows[0]?.sandbox_state === 'ready' && rows
    })
    expect(list).toHaveLength(1)
  })

  test('[TURN1] [TURN2] a prompt runs at once, the next ones wait in their order', async () => {
    const { prompt, end, command } = await open()
    const first = (await prompt('one')).json as Turn
    const second = (await prompt('two')).json as Turn
    const third = (await prompt('three')).json as Turn
    expect([first, second, third].map(({ state, position }) => [state, position])).toEqual([
      ['running', null],
      ['queued', 1],
      ['queued', 2],
    ])
    expect((await command(first.id)).body).toMatchObject({
      turnId: first.id,
      text: 'one',
      steer: false,
    })
    end(first.id)
    expect(await turnOf(first.id, 5)).toMatchObject({
      state: 'completed',
      text: 'said',
      reason: null,
    })
    expect((await command(second.id)).body).toMatchObject({ text: 'two' })
    expect(await turnOf(third.id)).toMatchObject({ state: 'queued', position: 1 })
  })

  test('[TURN1] the twenty-first queued prompt is refused', async () => {
    const { prompt } = await open()
    for (let n = 0; n <= 20; n++) expect((await prompt(`p${n}`)).status).toBe(202)
    const full = await prompt('one too many')
    expect([full.status, full.json.error.code]).toEqual([409, 'queue_full'])
  })

  test('[TURN3] steer merges into the running turn; without one it is an ordinary prompt', async () => {
    const { prompt, agent } = await open()
    const first = (await prompt('alone', { steer: true })).json as Turn
    expect(first.state).toBe('running')
    const steered = (await prompt('and this', { steer: true })).json as Turn
    expect(steered.id).toBe(first.id)
    const command = await agent.next('command', ({ body }) => body['steer'] === true)
    expect(command.body).toMatchObject({ turnId: first.id, text: 'and this' })
  })

  test('[TURN4] an Idempotency-Key gives the same turn; with another prompt it is 409', async () => {
    const { prompt } = await open()
    const key = { 'idempotency-key': 'k' }
    const answers = await Promise.all(Array.from({ length: 5 }, () => prompt('once', {}, key)))
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
    const other = await prompt('twice', {}, key)
    expect([other.status, other.json.error.code]).toEqual([409, 'key_conflict'])
  })

  test('[TURN6] a turn ends once: a later end changes nothing', async () => {
    const { prompt, end, session } = await open()
    const turn = (await prompt('x')).json as Turn
    end(turn.id, 'failed')
    expect(await turnOf(turn.id, 5)).toMatchObject({ state: 'failed', reason: 'because' })
    const next = (await prompt('y')).json as Turn
    end(turn.id, 'completed')
    end(next.id)
    expect((await turnOf(next.id, 5)).state).toBe('completed')
    expect((await turnOf(turn.id)).state).toBe('failed')
    const { json } = await api('GET', session, '/events?limit=500')
    const ends = (json.items as SessionEvent[]).filter(
      ({ kind, data }) => kind === 'turn.ended' && data['turnId'] === turn.id,
    )
    expect(ends).toHaveLength(1)
  })

  test('[TURN2] a prompt that the sandbox cannot deliver fails its turn, denies its asks and lets the next one start', async () => {
    const { prompt, agent, command, session } = await open({ gate: { ask: ['bash'] } })
    const first = (await prompt('one')).json as Turn
    const second = (await prompt('two')).json as Turn
    await command(first.id)
    agent.send(question(askId(1), 'bash'))
    await until(async () => (await api('GET', session, '/approvals')).json.items.length === 1)
    agent.send({ t: 'result', commandId: first.id, ok: false, error: 'OpenCode refused' })
    expect(await turnOf(first.id, 5)).toMatchObject({ state: 'failed', reason: 'OpenCode refused' })
    expect(await agent.next('answer')).toMatchObject({ askId: askId(1), decision: 'deny' })
    await command(second.id)
  })

  test('[TURN8] abort denies asks first, then aborts; queued turns are aborted too', async () => {
    const { prompt, agent, end, session, command } = await open({ gate: { ask: ['bash'] } })
    const running = (await prompt('one')).json as Turn
    const queued = (await prompt('two')).json as Turn
    await command(running.id)
    agent.send(question(askId(1), 'bash'))
    await until(async () => (await api('GET', session, '/approvals')).json.items.length === 1)
    expect((await api('POST', session, '/abort', {})).status).toBe(200)
    const abort = await command(`abort_${running.id}`)
    const answer = await agent.next('answer')
    expect([answer.askId, answer.decision]).toEqual([askId(1), 'deny'])
    expect(agent.messages.indexOf(answer)).toBeLessThan(agent.messages.indexOf(abort))
    expect(await turnOf(queued.id)).toMatchObject({ state: 'aborted' })
    // While it is being aborted nothing more is let through.
    agent.send(question(askId(2), 'read'))
    expect(await agent.next('answer', (answer) => answer.askId === askId(2))).toMatchObject({
      decision: 'deny',
    })
    const late = await resolve(session, 1, 'approved')
    expect(late.status).toBe(409)
    end(running.id, 'aborted')
    expect(await turnOf(running.id, 5)).toMatchObject({ state: 'aborted' })
  })

  test('[GATE2] [GATE3] the deny list refuses, the ask list waits for a person, an answer counts once', async () => {
    const { prompt, agent, session } = await open({ gate: { deny: ['webfetch'], ask: ['bash'] } })
    agent.send(question(askId(0), 'read'))
    expect(await agent.next('answer')).toMatchObject({
      decision: 'deny',
      reason: 'The turn in which this was asked does not run',
    })
    await prompt('go')
    agent.send(question(askId(1), 'webfetch'))
    agent.send(question(askId(2), 'read'))
    agent.send(question(askId(3), 'bash', { command: 'ls' }))
    const answered = (n: number) => agent.next('answer', (answer) => answer.askId === askId(n))
    expect(await answered(1)).toMatchObject({ decision: 'deny' })
    expect(await answered(2)).toMatchObject({ decision: 'allow' })
    const { json } = await api('GET', session, '/approvals')
    expect(json.items).toMatchObject([
      {
        subject: askId(3),
        state: 'pending',
        operation: { tool: 'bash', input: { command: 'ls' } },
      },
    ])
    const answers = await Promise.all(
      (['approved', 'rejected', 'approved'] as const).map((word) => resolve(session, 3, word)),
    )
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 409, 409])
    const won = answers.find(({ status }) => status === 200)?.json.state
    const winner = won === 'approved' ? 'allow' : 'deny'
    expect(await answered(3)).toMatchObject({ decision: winner })
    // Asked again after a reconnect, the answer is the same.
    const second = TestAgent.dial(stack().url, session.id, await stack().token(session))
    await second.greet()
    second.send(question(askId(3), 'bash', { command: 'ls' }))
    expect(await second.next('answer')).toMatchObject({ askId: askId(3), decision: winner })
  })

  test('[GATE2] nobody answers: the deadline denies', async () => {
    const { prompt, agent, session } = await open({ gate: { ask: ['bash'], askTimeoutSeconds: 1 } })
    await prompt('go')
    agent.send(question(askId(1), 'bash'))
    expect(await agent.next('answer')).toMatchObject({
      decision: 'deny',
      reason: 'Nobody answered in time',
    })
    const { json } = await api('GET', session, '/approvals')
    expect(json.items[0]).toMatchObject({ state: 'rejected', resolution: { actor: 'deadline' } })
  })

  test('[GATE5] an ask survives a restart of the control plane', async () => {
    const { prompt, agent, session } = await open({ gate: { ask: ['bash'] } })
    await prompt('go')
    agent.send(question(askId(1), 'bash'))
    await until(async () => (await api('GET', session, '/approvals')).json.items.length === 1)
    await stack().restart()
    const again = TestAgent.dial(stack().url, session.id, await stack().token(session))
    await again.greet()
    again.send(question(askId(1), 'bash'))
    expect((await resolve(session, 1, 'approved')).status).toBe(200)
    expect(await again.next('answer')).toMatchObject({ askId: askId(1), decision: 'allow' })
  })

  test('[SES5] closing denies, interrupts, stops the sandbox, refuses prompts, and may be repeated', async () => {
    const { prompt, agent, session } = await open({ gate: { ask: ['bash'] } })
    const turn = (await prompt('go')).json as Turn
    agent.send(question(askId(1), 'bash'))
    await until(async () => (await api('GET', session, '/approvals')).json.items.length === 1)
    const waiting = turnOf(turn.id, 20)
    const closed = [
      await api('POST', session, '/close', { reason: 'done' }),
      await api('POST', session, '/close', {}),
    ]
    expect(closed.map(({ status, json }) => [status, json.status])).toEqual([
      [200, 'closed'],
      [200, 'closed'],
    ])
    expect((await waiting).state).toBe('interrupted')
    expect(await agent.next('answer')).toMatchObject({ decision: 'deny' })
    expect((await agent.next('command', ({ kind }) => kind === 'stop')).id).toBe('stop_1')
    expect((await prompt('more')).status).toBe(409)
    await until(() => !sandboxHost.running.has(`${session.id}.1`))
    await until(async () => (await api('GET', session, '')).json.sandbox.state === 'stopped')
    const { json } = await api('GET', session, '/events?limit=500')
    expect(
      (json.items as SessionEvent[]).filter(({ kind }) => kind === 'session.closed'),
    ).toHaveLength(1)
  })

  test('[BOX4] [TURN10] an agent that fails loses the sandbox: its turn is interrupted, prompts are refused until a replacement', async () => {
    const { prompt, agent, session, command } = await open({ replacement: 'manual' })
    const turn = (await prompt('go')).json as Turn
    const queued = (await prompt('later')).json as Turn
    await command(turn.id)
    agent.send({ t: 'failed', reason: 'OpenCode does not start' })
    expect(await turnOf(turn.id, 5)).toMatchObject({
      state: 'interrupted',
      reason: 'OpenCode does not start',
    })
    const refused = await prompt('more')
    expect(refused.status).toBe(409)
    expect(refused.json.error.message).toContain(`/v1/sessions/${session.id}/replace`)
    await until(() => !sandboxHost.running.has(`${session.id}.1`))

    // What is left of it may still call: it is turned away.
    const undead = TestAgent.dial(stack().url, session.id, await stack().token(session))
    expect(await undead.opened()).toBe(false)
    expect(await turnOf(queued.id)).toMatchObject({ state: 'queued' })

    await api('POST', session, '/replace', {})
    await until(() => sandboxHost.running.has(`${session.id}.2`))
    const fresh = TestAgent.dial(
      stack().url,
      session.id,
      await stack().token(session, { generation: 2 }),
    )
    await fresh.greet()
    expect((await fresh.next('command')).body).toMatchObject({ turnId: queued.id, text: 'later' })
  })
})
