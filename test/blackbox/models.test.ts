import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cryptoSha256 } from '../../src/adapters/web-crypto.ts'
import type { Session } from '../../src/contract/session.ts'
import { needing } from '../support/needs.ts'
import { hosts, until, useStack } from '../support/stack.ts'

const vendorKey = 'sk-real-key-of-the-vendor'
const seen: { url: string; key: string; body: string }[] = []
let answer: (response: ServerResponse) => void = (response) => response.end('{}')
const vendor = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on('end', () => {
    seen.push({ url: request.url ?? '', key: String(request.headers.authorization), body })
    answer(response)
  })
})
await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve))
const vendorUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1`
afterAll(() => {
  vendor.closeAllConnections()
  vendor.close()
})

describe.each(hosts)('the sandbox’s bytes on %s', (host) => {
  const stack = useStack(host, async () => ({
    model: { GANTRY_MODEL_BASE_URL: vendorUrl, GANTRY_MODEL_API_KEY: vendorKey },
  }))
  let session: Session
  let token: string
  beforeAll(async () => {
    session = await stack().createSession()
    token = await stack().token(session)
  })
  /** Of a session of its own: without a turn a few calls pass. */
  const ask = async (content = 'x') => {
    const asking = await stack().createSession()
    return fetch(`${stack().url}/llm/litellm/chat/completions?x=1`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await stack().token(asking)}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ model: 'scripted', messages: [{ role: 'user', content }] }),
    })
  }

  test('a model’s answer streams through as it comes, asked with the real key', async () => {
    let end = () => {}
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
      end = () => response.end('data: 2\n\n')
    }
    const response = await ask('x'.repeat(200_000))
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toBe('data: 1\n\n')
    end()
    let rest = ''
    for (let part = await reader.read(); !part.done; part = await reader.read()) rest += part.value
    expect(rest).toBe('data: 2\n\n')
    const last = seen.at(-1)
    expect([last?.url, last?.key, last?.body.length]).toEqual([
      '/v1/chat/completions',
      `Bearer ${vendorKey}`,
      200_062,
    ])
  })

  // What stands before workerd there does not tell it that a reader has gone.
  const tellsWhoGoes = host === 'workerd' || host === 'deno'
  const whereTold = needing(tellsWhoGoes, 'a host that says so when a reader goes')
  whereTold('who stops reading stops the vendor', async () => {
    let isClosed = false
    answer = (response) => {
      const drip = setInterval(() => response.write('data: 1\n\n'), 20)
      response.on('close', () => {
        clearInterval(drip)
        isClosed = true
      })
      response.writeHead(200)
    }
    const response = await ask()
    const reader = response.body!.getReader()
    await reader.read()
    await reader.cancel()
    // workerd finds the reader gone when the next piece is sent to it.
    await until(() => isClosed)
  })

  test('a refusal and a redirect of the vendor do not carry its key away', async () => {
    answer = (response) => response.writeHead(401).end(`bad key ${vendorKey}`)
    const refused = await ask()
    expect([refused.status, await refused.text()]).toEqual([401, 'bad key [secret:MODEL_KEY]'])
    answer = (response) => response.writeHead(307, { location: vendorUrl }).end()
    const before = seen.length
    const redirected = await ask()
    expect([redirected.status, seen.length]).toEqual([503, before + 1])
  })

  test('8 MiB are taken and stored within seconds; a byte more is refused', async () => {
    const put = (bytes: Uint8Array<ArrayBuffer>) =>
      fetch(`${stack().url}/sandbox/${session.id}/artifacts`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${token}` },
        body: bytes,
      })
    const bytes = new Uint8Array(8 * 1024 * 1024)
    crypto.getRandomValues(bytes.subarray(0, 65_536))
    const answered = await put(bytes)
    expect(await answered.json()).toEqual({ sha256: await cryptoSha256(bytes), size: bytes.length })
    expect((await put(new Uint8Array(bytes.length + 1))).status).toBe(413)
  })
})
