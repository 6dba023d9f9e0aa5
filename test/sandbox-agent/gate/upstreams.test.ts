import { createServer as createListener, connect, type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { Upstreams } from '../../../sandbox-agent/gate/upstreams.ts'
import { serve } from '../support.ts'

/** What a program inside writes to the port of a host whose secret the control plane adds. */
async function setUp() {
  const { url, received } = await serve((_, response) => void response.end('answered'))
  const upstreams = new Upstreams({
    gatewayUrl: `${url}/base`,
    token: () => 'the-token-of-the-sandbox',
    decide: async () => ({ allow: true, reason: '' }),
  })
  const listener = createListener()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    upstreams.close()
    listener.close()
  })
  upstreams.serve([{ host: 'api.example.com', secrets: ['TOKEN'], npm: [] }], [listener])
  const { port } = listener.address() as AddressInfo
  return {
    received,
    get: async (target: string) => {
      const socket = connect(port, '127.0.0.1')
      socket.write(`GET ${target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
      return text(socket)
    },
  }
}

test('[WALL20] a request goes to its host by the control plane, and to no other route of it', async () => {
  const { received, get } = await setUp()
  expect(await get('/a/b?c=../d')).toContain('answered')
  expect(await get('/a/../b')).toContain('answered')
  expect(received.map(({ path }) => path)).toEqual([
    '/base/upstreams/api.example.com/a/b?c=../d',
    '/base/upstreams/api.example.com/b',
  ])
  received.length = 0
  for (const target of [
    '/../../proliferate/ses_x/tools/verify',
    '/../../../proliferate/ses_x/tools/verify',
    '/../other.example.com/x',
    '/%2e%2e/%2e%2e/v1/sandbox',
    '/.%2E/../v1',
    '/a/../../../x',
    '/..\\..\\v1',
    '/..',
    '/../api.example.com',
    'x',
    'http://other.example.com/x',
    '*',
  ])
    expect(await get(target), target).toMatch(/^HTTP\/1\.1 400 /)
  expect(received).toEqual([])
})
