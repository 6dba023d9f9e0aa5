import { expect, test } from 'vitest'
import { meteredModelStream } from '../../src/http/kit/model/stream.ts'
import type { CallEnd } from '../../src/core/session/budget/model-calls.ts'

const encoder = new TextEncoder()

async function endOf(pieces: readonly string[]): Promise<CallEnd | undefined> {
  let told: CallEnd | undefined
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(encoder.encode(piece))
      controller.close()
    },
  })
  const metering = {
    ...{ provider: 'litellm' as const, silenceMs: 1000, longestMs: 1000, now: () => 0 },
    ...{ upstream: new AbortController(), onPiece: () => undefined },
    onEnd: (end: CallEnd) => (told = end),
  }
  await new Response(meteredModelStream(body, true, metering)).arrayBuffer()
  return told
}

const usage = '{"usage":{"prompt_tokens":7,"completion_tokens":3}}'

test('[LLM4] what the vendor says is read wherever its answer is cut', async () => {
  const text = `data: {"x":1}\n\ndata: ${usage}\n\ndata: [DONE]\n\n`
  for (let at = 1; at < text.length; at += 1)
    expect(await endOf([text.slice(0, at), text.slice(at)])).toMatchObject({
      kind: 'said',
      tokens: { input: 7, output: 3 },
    })
  expect(await endOf([`data: ${usage}`])).toMatchObject({ kind: 'said' })
})

test('[LLM5] a line that does not end costs in proportion to its length, however it comes', async () => {
  const millisecondsOf = async (count: number) => {
    const pieces = Array.from({ length: count }, () => 'x'.repeat(1000))
    let best = Infinity
    for (let time = 0; time < 3; time += 1) {
      const before = process.threadCpuUsage()
      expect(await endOf(pieces)).toMatchObject({ kind: 'broken' })
      const { user, system } = process.threadCpuUsage(before)
      best = Math.min(best, (user + system) / 1000)
    }
    // The clock of a thread may go in steps.
    return Math.max(best, 4)
  }
  await millisecondsOf(100)
  expect((await millisecondsOf(4000)) / (await millisecondsOf(400))).toBeLessThan(30)
})
