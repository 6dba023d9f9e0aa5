import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connectFrame, readFrames } from '../../src/adapters/sandboxes/connect-frames.ts'
import { createE2bSandboxes } from '../../src/adapters/sandboxes/e2b.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import type { SandboxProvider } from '../../src/core/ports.ts'
import { sandboxSpec } from '../support/sandbox-spec.ts'

const apiKey = 'e2b_the-key-itself'
const sessionId = sandboxSpec().sessionId

interface Vendor {
  provider: SandboxProvider
  /** `METHOD path`. */
  asked: string[]
}
type Answer = [status: number, body?: unknown, headers?: Record<string, string>]

/** Gives these answers in turn, the last one for ever; null: none at all. */
async function vendor(...answers: (Answer | null)[]): Promise<Vendor> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url?.split('?')[0]}`)
    const answer = answers[Math.min(asked.length, answers.length) - 1]
    if (answer === null || answer === undefined) return
    const [status, body, headers = {}] = answer
    response.writeHead(status, headers)
    response.end(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = createE2bSandboxes({
    apiKey,
    apiUrl: `${url}/`,
    sandboxUrl: url,
    template: 'gantry',
    deploymentLabel: 'test',
    // Short only where there is something to wait for in vain: this machine may be busy.
    timeouts: answers.includes(null)
      ? { quickMs: 200, slowMs: 300 }
      : { quickMs: 20_000, slowMs: 20_000 },
  })
  return { provider, asked }
}

const listed = { sandboxID: 'i1', startedAt: '2026-01-01T00:00:00Z', state: 'running' }

describe('errors of E2B', () => {
  test.each([401, 403])(
    '[E2B11] %i says that the key is refused, without the key',
    async (status) => {
      const { provider } = await vendor([status, { message: `bad key ${apiKey}` }])
      const error = (await provider.get(sessionId, 1).catch((each: unknown) => each)) as Error
      expect(errorCodeOf(error)).toBe('sandbox_unavailable')
      expect(error.message).toBe('E2B refuses the API key')
      const checks = await provider.check()
      expect(checks).toEqual([expect.objectContaining({ name: 'api key', ok: false })])
      expect(checks[0]?.hint).toContain('E2B_API_KEY')
    },
  )

  test('[E2B11] a vendor that quotes the key is not quoted', async () => {
    const { provider } = await vendor([500, `oh no: ${apiKey}`])
    await expect(provider.get(sessionId, 1)).rejects.toThrow('E2B answered 500: oh no: [hidden]')
  })

  test('[E2B11] 429 is asked again after a short Retry-After', async () => {
    const limited: Answer = [429, {}, { 'retry-after': '0.01' }]
    const { provider, asked } = await vendor(limited, limited, [200, []])
    expect(await provider.get(sessionId, 1)).toBeNull()
    expect(asked).toHaveLength(3)
  })

  test.each(['3600', 'Wed, 21 Oct 2026 07:28:00 GMT'])(
    '[E2B11] 429 with Retry-After %s is not waited for',
    async (after) => {
      const { provider, asked } = await vendor([429, {}, { 'retry-after': after }])
      await expect(provider.get(sessionId, 1)).rejects.toMatchObject({
        code: 'sandbox_unavailable',
      })
      expect(asked).toHaveLength(1)
    },
  )

  test('[E2B11] a silent vendor is unavailable, not a not-found', async () => {
    const { provider } = await vendor(null)
    const order = {
      snapshotId: 'snp_1',
      organisationId: 'org_1',
      sessionId,
      generation: 1,
      secrets: [],
    }
    for (const work of [
      () => provider.get(sessionId, 1),
      () => provider.list('org_1'),
      () => provider.stop(sessionId, 1),
      () => provider.extend(sessionId, 1, 5),
      () => provider.create(sandboxSpec()),
      () => provider.snapshot(order),
      () => provider.deleteSnapshot('org_1', 'snp_1'),
    ])
      await expect(work()).rejects.toMatchObject({ code: 'sandbox_unavailable' })
  })

  test.each([
    ['not JSON', 'x'],
    ['another shape', { items: [] }],
    ['an unknown state', [{ ...listed, state: 'dreaming' }]],
  ])('[E2B11] %s is unavailable, not a not-found', async (_, body) => {
    const { provider } = await vendor([200, body])
    await expect(provider.get(sessionId, 1)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
  })

  test('[E2B11] a sandbox that is listed, but no longer there, is null', async () => {
    const { provider } = await vendor([200, [listed]], [404])
    expect(await provider.get(sessionId, 1)).toBeNull()
  })

  test('[E2B11] a daemon that does not answer is unavailable while the vendor has the sandbox', async () => {
    const access = { sandboxID: 'i1', envdAccessToken: 't' }
    const there = await vendor([200, [listed]], [200, access], [502, {}], [200, access])
    await expect(there.provider.get(sessionId, 1)).rejects.toThrow('answered 502 to Start')
    const gone = await vendor([200, [listed]], [200, access], [502, {}], [404])
    expect(await gone.provider.get(sessionId, 1)).toBeNull()
  })

  test('[E2B20] without an access token of its daemon a sandbox is not spoken to', async () => {
    for (const access of [{ sandboxID: 'i1' }, { sandboxID: 'i1', envdAccessToken: '' }]) {
      const { provider, asked } = await vendor([200, [listed]], [200, access], [200, access])
      await expect(provider.get(sessionId, 1)).rejects.toMatchObject({
        code: 'sandbox_unavailable',
        message: expect.stringContaining('no access token'),
      })
      expect(asked.filter((path) => path.includes('process.Process'))).toEqual([])
    }
  })

  test('[E2B11] of many sandboxes every page is read', async () => {
    const page = Array.from({ length: 3 }, () => ({
      ...listed,
      metadata: { session: sessionId, generation: '1' },
    }))
    const more = { 'x-next-token': 'next' }
    const { provider, asked } = await vendor([200, page, more], [200, page, more], [200, page])
    expect(await provider.list('org_1')).toHaveLength(9)
    expect(asked).toHaveLength(3)
  })

  test('[E2B13] a check names a missing template, an unbuilt one and a good one', async () => {
    const alias: Answer = [200, { templateID: 't1' }]
    const checkOf = async (...answers: Answer[]) =>
      (await (await vendor([200, []], ...answers)).provider.check())[1]
    expect(await checkOf([404], [404])).toMatchObject({
      ok: false,
      hint: expect.any(String) as string,
    })
    expect(await checkOf(alias, [200, { builds: [{ status: 'building' }] }])).toMatchObject({
      ok: false,
      message: 'Template "gantry" has no finished build',
    })
    expect(await checkOf(alias, [200, { builds: [{ status: 'ready' }] }])).toMatchObject({
      ok: true,
      hint: null,
    })
    expect(await checkOf([404], [200, { builds: [{ status: 'uploaded' }] }])).toMatchObject({
      ok: true,
    })
    expect(await checkOf([403])).toMatchObject({ ok: true })
    expect(await checkOf([500])).toMatchObject({ ok: false })
  })

  test('[E2B13] a label that the vendor would not take is refused at once', () => {
    for (const deploymentLabel of ['', 'Upper', 'a b', 'a:b', 'x'.repeat(41)])
      expect(() => createE2bSandboxes({ apiKey, template: 't', deploymentLabel })).toThrow('label')
  })
})

describe('frames', () => {
  const streamOf = (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes]).stream()
  const end = (message: object) => {
    const bytes = connectFrame(message)
    bytes[0] = 2
    return bytes
  }
  const all = async (stream: ReadableStream<Uint8Array>) => {
    const found: unknown[] = []
    for await (const each of readFrames(stream)) found.push(each)
    return found
  }

  test('[E2B11] messages are read however they are cut', async () => {
    const bytes = Buffer.concat([connectFrame({ a: 'ä' }), connectFrame({ b: 2 }), end({})])
    for (const size of [1, 2, 7, 1000]) {
      const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        Uint8Array.from(bytes.subarray(n * size, (n + 1) * size)),
      )
      const stream = new ReadableStream<Uint8Array>({
        start: (controller) => {
          for (const piece of pieces) controller.enqueue(piece)
          controller.close()
        },
      })
      expect(await all(stream)).toEqual([{ a: 'ä' }, { b: 2 }])
    }
  })

  test('[E2B11] a stream without its end, with an error at its end, or too large is unavailable', async () => {
    const large = connectFrame({})
    large[1] = 255
    for (const stream of [
      streamOf(connectFrame({})),
      streamOf(connectFrame({}).subarray(0, 3)),
      streamOf(end({ error: { code: 'not_found', message: 'x' } })),
      streamOf(large),
    ])
      await expect(all(stream)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
  })
})

describe("[E2B19] the session's own template", () => {
  const create = async (answer: Answer, image: string | null) => {
    const { provider } = await vendor([200, []], answer)
    const refused = await provider.create(sandboxSpec({ image })).catch((error: unknown) => error)
    return [errorCodeOf(refused), (refused as Error).message]
  }
  const missing: Answer = [404, { message: "template 'typo' not found" }]

  test("that E2B does not take is its user's fault, with what to check", async () => {
    const [code, message] = await create(missing, 'typo')
    expect([code, message]).toEqual(['unprocessable', expect.stringContaining('Check image')])
    expect((await create([400, 'bad'], 'typo'))[0]).toBe('unprocessable')
  })

  test('nothing else is', async () => {
    expect((await create(missing, null))[0]).toBe('sandbox_unavailable')
    for (const status of [401, 403, 500, 503])
      expect((await create([status, 'no'], 'typo'))[0]).toBe('sandbox_unavailable')
  })
})
