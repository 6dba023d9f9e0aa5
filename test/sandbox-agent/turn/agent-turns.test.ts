import { expect, it, vi } from 'vitest'
import { startAgent } from '../agent-kit.ts'

const prompt = (n: number) => ({
  turnId: `trn_${n}`,
  messageId: `msg_${n}`,
  text: `Prompt ${n}`,
  steer: false,
})

// The real agent, with a stand-in for OpenCode that never comes to an end.
it(
  '[TURN8] [TURN12] [TURN14] [TURN15] an agent whose OpenCode hangs ends each turn, goes on with the next prompt, and says which turn it has',
  { timeout: 240_000 },
  async () => {
    const patience = { lookEveryMs: 100, probeMs: 500, abortMs: 1000 }
    const agent = await startAgent({ patience })
    const { seen, send, resultOf, endOf } = agent
    const sent = (n: number) => {
      const found = agent.prompts()[n]
      if (!found) throw new Error(`Prompt ${n} has not arrived`)
      return found
    }
    agent.start()
    await vi.waitFor(() => expect(agent.readies()).toHaveLength(1), 120_000)

    send('trn_1', 'prompt', prompt(1))
    expect(await resultOf('trn_1')).toMatchObject({ ok: true, data: { sent: true, beats: true } })
    expect(seen).toContainEqual({ t: 'alive', turnId: 'trn_1' })
    process.kill(agent.opencodePid(), 'SIGSTOP')
    expect(await endOf('trn_1')).toMatchObject({
      state: 'interrupted',
      reason: expect.stringContaining('OpenCode has not answered for'),
    })

    send('trn_2', 'prompt', prompt(2))
    expect(await resultOf('trn_2')).toMatchObject({ data: { sent: true } })
    expect(sent(1).by).not.toBe(sent(0).by)
    expect(sent(1).text).toContain('OpenCode was ended and restarted')

    process.kill(agent.opencodePid(), 'SIGSTOP')
    send('abort_trn_2', 'abort', { turnId: 'trn_2', reason: 'enough' })
    send('trn_3', 'prompt', prompt(3))
    expect(await endOf('trn_2')).toMatchObject({ state: 'aborted', reason: 'enough' })
    expect(await resultOf('trn_3')).toMatchObject({ data: { sent: true } })
    expect(agent.prompts()).toHaveLength(3)
  },
)
