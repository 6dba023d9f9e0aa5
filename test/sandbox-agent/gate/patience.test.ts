import { request } from 'node:http'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { Relay } from '../../../sandbox-agent/gate/relay.ts'

const allowing = Object.assign(new Gate(() => {}), { admits: () => true })

/** One call by the relay as the agent makes it; its own `fetch` is the one that is watched here. */
function callTool(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: 'Bearer local' }
    const path = `${url}/proliferate/ses_1/tools/verify`
    const sent = request(path, { method: 'POST', headers }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => resolve(text))
    })
    sent.on('error', reject)
    sent.end(JSON.stringify({ tool_call_id: 'one', args: {} }))
  })
}

test('[CALL16] six tries of 120 s each, after 0.5, 1, 2, 4 and 8 s', async () => {
  const tries: { at: number; body: string }[] = []
  const limits = vi.spyOn(AbortSignal, 'timeout')
  vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] })
  vi.stubGlobal('fetch', async (_url: string, { body }: { body: string }) => {
    tries.push({ at: Date.now(), body })
    throw new TypeError('fetch failed')
  })
  const relay = new Relay({
    ...{ gatewayUrl: 'http://gateway.test', sessionId: 'ses_1', token: () => 'jwt' },
    ...{ localToken: 'local', gate: allowing },
  })
  onTestFinished(() => {
    relay.close()
    vi.useRealTimers()
    vi.unstubAllGlobals()
    limits.mockRestore()
  })
  let answer: string | undefined
  void callTool(await relay.listen()).then((text) => (answer = text))
  while (answer === undefined) {
    await new Promise(setImmediate)
    if (tries.length > 0 && tries.length < 6) await vi.advanceTimersByTimeAsync(100)
  }
  const waits = tries.slice(1).map(({ at }, index) => at - (tries[index]?.at ?? 0))
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000])
  expect(new Set(tries.map(({ body }) => body)).size).toBe(1)
  expect(limits.mock.calls).toEqual(Array.from({ length: 6 }, () => [120_000]))
  expect(JSON.parse(answer)).toMatchObject({
    success: false,
    result: expect.stringContaining('gave up after 6 tries'),
  })
})
