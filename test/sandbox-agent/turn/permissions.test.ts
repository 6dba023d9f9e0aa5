import { describe, expect, test, vi } from 'vitest'
import { Gate, type Ask } from '../../../sandbox-agent/gate/gate.ts'
import { Permissions } from '../../../sandbox-agent/turn/permissions.ts'
import { json, serve } from '../support.ts'

/** The gate of a running turn, and an OpenCode that takes replies. */
async function asking() {
  const asks: Ask[] = []
  const gate = new Gate((ask) => asks.push(ask))
  gate.open('trn_1')
  gate.linkUp()
  const { url, received } = await serve((_, response) => json(response, 200, true))
  const opencode = {
    request: async (method: string, path: string, body?: unknown) =>
      (await fetch(url + path, { method, body: JSON.stringify(body) })).json(),
  }
  const permissions = new Permissions(gate, async () => opencode)
  const replies = () => received.map(({ method, path, body }) => [method, path, JSON.parse(body)])
  return { gate, asks, permissions, replies }
}

/** As OpenCode says it. */
const event = (id: string) => ({
  type: 'permission.asked',
  properties: {
    ...{ id, sessionID: 'ses_1', permission: 'external_directory', patterns: ['/etc/*'] },
    ...{ metadata: { filepath: '/etc/hosts' }, always: ['/etc/*'] },
    tool: { messageID: 'msg_1', callID: 'call_1' },
  },
})

describe('what OpenCode itself asks', () => {
  test.each([
    ['allow', 'once'],
    ['deny', 'reject'],
  ] as const)('[EVR16] is asked at the gate, and %s is the reply %s', async (decision, reply) => {
    const { gate, asks, permissions, replies } = await asking()
    permissions.hear(event('per_1'))
    expect(asks).toMatchObject([
      {
        ...{ tool: 'permission', callId: 'call_1', sessionID: 'ses_1', turnId: 'trn_1' },
        input: { permission: 'external_directory', patterns: ['/etc/*'] },
      },
    ])
    expect(replies()).toEqual([])
    gate.answer(asks[0]!.askId, { decision, reason: 'The target says so' })
    await vi.waitFor(
      () => expect(replies()).toEqual([['POST', '/permission/per_1/reply', { reply }]]),
      120_000,
    )
  })

  test('[EVR16] told twice it is asked once; each question has its own answer', async () => {
    const { gate, asks, permissions, replies } = await asking()
    for (const id of ['per_1', 'per_2', 'per_1']) permissions.hear(event(id))
    permissions.hear({ type: 'permission.replied', properties: { id: 'per_3' } })
    expect(asks).toHaveLength(2)
    gate.answer(asks[1]!.askId, { decision: 'allow', reason: '' })
    gate.answer(asks[0]!.askId, { decision: 'deny', reason: '' })
    await vi.waitFor(() => expect(replies()).toHaveLength(2), 120_000)
    expect(replies()).toEqual(
      expect.arrayContaining([
        ['POST', '/permission/per_1/reply', { reply: 'reject' }],
        ['POST', '/permission/per_2/reply', { reply: 'once' }],
      ]),
    )
  })

  test('[EVR16] is refused when its turn ends before it is answered: OpenCode never waits for ever', async () => {
    const { gate, permissions, replies } = await asking()
    permissions.hear(event('per_1'))
    gate.close('The turn has ended')
    await vi.waitFor(() => expect(replies()).toHaveLength(1), 120_000)
    expect(replies()[0]?.[2]).toEqual({ reply: 'reject' })
  })
})
