import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useHost } from '../support/host.ts'

const privateHosts: string[] = []
const host = useHost({ privateHosts })
const value = 'tok-0123456789abcdef'
const basic = Buffer.from(`x-access-token:${value}`).toString('base64')

/** A host that shows what it got, in every way in which it could be shown. */
let upstream: string
let other: string
const received: {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
}[] = []
const server = createServer((request, response) => void answer(request, response))

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = ''
  for await (const chunk of request) body += String(chunk)
  const { method = '', url = '', headers } = request
  received.push({ method, url, headers, body })
  const seen = String(headers.authorization ?? headers['x-token'])
  if (url === '/moved')
    return void response.writeHead(302, { location: `http://${other}/x?t=${seen}` }).end()
  if (url === '/zipped')
    return void response.setHeader('content-encoding', 'gzip').end(gzipSync(seen))
  if (url === '/odd') return void response.setHeader('content-encoding', 'zstd').end(seen)
  if (url === '/pieces') {
    for (const piece of [seen.slice(0, 5), seen.slice(5, 12), seen.slice(12), 'end']) {
      response.write(piece)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return void response.end()
  }
  response.writeHead(201, { 'x-echo': seen, 'set-cookie': 'a=b', 'content-type': 'text/plain' })
  response.end(
    Buffer.concat([Buffer.from([0, 200, 255]), Buffer.from(`${seen} ${btoa(seen)} ${body}`)]),
  )
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  upstream = `http://127.0.0.1:${port}`
  other = `localhost:${port}`
  privateHosts.push(`127.0.0.1:${port}`)
})
afterAll(() => void server.close())

type Asked = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> }

async function begin(inject: object, prompt = true) {
  const configurationId = await host().configuration({ envFiles: undefined })
  const body = { value, configurationId, inject: { hosts: [upstream], ...inject } }
  const secret = await host().ok('PUT', '/v1/secrets/TOKEN', body)
  const session = await host().begin({ configurationId })
  if (prompt) await session.prompt()
  received.length = 0
  const ask = (path: string, init: Asked = {}, to = upstream, token = session.token) =>
    host().app.app.request(`/upstreams/${encodeURIComponent(to)}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${token}`, ...init.headers },
    })
  return { session, configurationId, secret, ask }
}

describe('a secret that is injected', () => {
  test('[SEC12] is not given to the sandbox, which is told of its host instead', async () => {
    const second = 'registry.example.com'
    const { session, secret } = await begin({ hosts: [upstream, second], npm: '@team' }, false)
    expect(secret).toMatchObject({ name: 'TOKEN', inject: { header: 'authorization' } })
    const env = await host().ok('GET', `/sandbox/${session.id}/env`, undefined, session.token)
    expect(env.values).toEqual({})
    expect(session.manifest.upstreams).toEqual([
      // The registry of the scope is the first one.
      { host: upstream, secrets: ['TOKEN'], npm: ['@team'] },
      { host: second, secrets: ['TOKEN'], npm: [] },
    ])
    expect(JSON.stringify(session.manifest)).not.toContain(value)
  })

  test('[SEC13] is added to a request, which passes else as it is, without what names the sandbox', async () => {
    const { ask } = await begin({})
    const headers = { 'git-protocol': 'version=2', cookie: 'x=y', 'x-forwarded-for': '1.2.3.4' }
    const answered = await ask('/a%2fb/c?d=%2F', { method: 'POST', body: 'text', headers })
    expect(answered.status).toBe(201)
    expect(received).toMatchObject([{ method: 'POST', url: '/a%2fb/c?d=%2F', body: 'text' }])
    expect(received[0]?.headers).toMatchObject({
      authorization: `Bearer ${value}`,
      'git-protocol': 'version=2',
    })
    for (const name of ['cookie', 'x-forwarded-for'])
      expect(received[0]?.headers).not.toHaveProperty(name)
    expect(answered.headers.has('set-cookie')).toBe(false)
  })

  test.each([
    [{ scheme: 'basic' }, 'authorization', `Basic ${basic}`],
    [{ scheme: 'basic', user: 'me' }, 'authorization', `Basic ${btoa(`me:${value}`)}`],
    [{ scheme: 'plain' }, 'authorization', value],
    [{ header: 'x-token' }, 'x-token', value],
    [{ header: 'x-token', scheme: 'bearer' }, 'x-token', `Bearer ${value}`],
  ])('[SEC13] as %j is the header %s', async (inject, name, sent) => {
    const { ask } = await begin(inject)
    await ask('/', { headers: { [name === 'x-token' ? name : 'x-other']: 'of the sandbox' } })
    expect(received[0]?.headers[name]).toBe(sent)
  })

  test.each([{}, { scheme: 'basic' }, { header: 'x-token' }])(
    '[SEC14] is nowhere in the answer, however the host shows it: %j',
    async (inject) => {
      const { ask } = await begin(inject)
      for (const path of ['/', '/moved', '/zipped', '/pieces']) {
        const answered = await ask(path)
        const bytes = Buffer.from(await answered.arrayBuffer())
        const shown = `${JSON.stringify([...answered.headers])} ${bytes.toString('latin1')}`
        for (const form of [value, basic, btoa(value), btoa(`Bearer ${value}`)])
          expect(shown, path).not.toContain(form)
        expect(shown, path).toContain('[secret:TOKEN]')
        if (path === '/') expect([...bytes.subarray(0, 3)]).toEqual([0, 200, 255])
        if (path === '/pieces') expect(bytes.toString()).toMatch(/end$/)
      }
      expect((await ask('/odd')).status).toBe(503)
    },
  )

  test('[SEC14] does not follow a redirect', async () => {
    const { ask } = await begin({})
    const answered = await ask('/moved')
    expect(answered.status).toBe(302)
    expect(answered.headers.get('location')).toContain(`http://${other}/x`)
    expect(received).toHaveLength(1)
  })

  test('[SEC15] is used while a turn runs, for its own hosts, by the current sandbox, and while no kill switch is on', async () => {
    const idle = await begin({}, false)
    expect((await idle.ask('/')).status).toBe(403)
    const { ask } = await begin({})
    expect((await ask('/', {}, 'api.github.com')).status).toBe(404)
    expect((await ask('/', {}, '%')).status).toBe(404)
    const stranger = await begin({})
    received.length = 0
    expect((await ask('/', {}, upstream, host().key)).status).toBe(403)
    expect((await ask('/../../v1/sessions')).status).not.toBe(201)
    await host().ok('POST', '/v1/kill-switch', { on: true, reason: 'test' })
    expect((await stranger.ask('/')).status).toBe(403)
    await host().ok('POST', '/v1/kill-switch', { on: false, reason: 'test' })
    expect(received).toEqual([])
    const replaced = stranger.session.token
    await host().ok('POST', `${stranger.session.at}/replace`, { reason: 'test' })
    await host().live(5000)
    expect((await ask('/', {}, upstream, replaced)).status).toBe(403)
    expect(received).toEqual([])
  })

  test('[SEC12] stays out of the sandbox with another value, also one that a person submits', async () => {
    const { session, configurationId, ask } = await begin({})
    const submitted = host().ok('POST', `${session.at}/env`, {
      values: [{ key: 'TOKEN', value: 'another-0123456789', persist: true }],
      replace: true,
    })
    const { id } = await session.agent.command('env')
    const env = await host().ok('GET', `/sandbox/${session.id}/env`, undefined, session.token)
    session.agent.result(id)
    await submitted
    expect(env.values).toEqual({})
    await ask('/')
    expect(received[0]?.headers.authorization).toBe('Bearer another-0123456789')
    const again = await host().ok('PUT', '/v1/secrets/TOKEN', { value, configurationId })
    expect(again.inject).toMatchObject({ hosts: [upstream] })
    const open = { value, configurationId, inject: null }
    expect(await host().ok('PUT', '/v1/secrets/TOKEN', open)).toMatchObject({ inject: null })
  })

  test.each([
    ['localhost:1', 'Must not be on this machine'],
    ['10.0.0.1', 'Must not be a private or reserved address'],
    ['metadata.internal', 'Must be a public host name'],
    ['http://api.github.com', 'Must be reached by TLS: leave out "http://"'],
    ['api.github.com:443', 'Must be written "api.github.com"'],
    ['2130706433', 'Must be written "127.0.0.1"'],
    [
      'API.github.com',
      'A host in small letters such as "api.example.com" or "npm.example.com:8443"',
    ],
  ])('[SEC12] is not for the host %s', async (name, message) => {
    const { status, json } = await host().call('PUT', '/v1/secrets/OTHER', {
      value,
      inject: { hosts: [name] },
    })
    expect([status, json.error.details]).toEqual([400, [{ path: 'inject.hosts.0', message }]])
  })

  test.each([
    [{ value: 'short', inject: { hosts: ['a.com'] } }, 'value'],
    [{ value: 'two\nlines-of-it', inject: { hosts: ['a.com'] } }, 'value'],
    [{ value, inject: { hosts: ['a.com'], header: 'host' } }, 'inject.header'],
    [{ value, inject: { hosts: ['a.com'], header: 'content-length' } }, 'inject.header'],
    [{ value, inject: { hosts: [] } }, 'inject.hosts'],
    [{ value, inject: { hosts: ['a.com'], npm: 'team' } }, 'inject.npm'],
  ])('[SEC12] %j is refused, naming %s', async (body, path) => {
    const { status, json } = await host().call('PUT', '/v1/secrets/OTHER', body)
    expect([status, json.error.details[0].path]).toEqual([400, path])
    expect(JSON.stringify(json)).not.toContain(value)
  })
})
