import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { ControlPlane } from '../../../sandbox-agent/link/control-plane.ts'
import { Token } from '../../../sandbox-agent/link/token.ts'
import { uploadFile } from '../../../sandbox-agent/link/upload.ts'
import { Uplink, type UplinkOptions } from '../../../sandbox-agent/link/uplink.ts'
import { log } from '../../../sandbox-agent/log.ts'
import { Results } from '../../../sandbox-agent/memory/memory.ts'
import { Spool } from '../../../sandbox-agent/memory/spool.ts'
import { linkClose, UpMessage } from '../../../src/contract/link.ts'
import { json, serve, temporaryFolder } from '../support.ts'
import { serveSockets } from './socket-server.ts'

const whole = { parse: (value: unknown) => value as Record<string, unknown> }
const jwt = (payload: object) => `h.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.s`

describe('a token', () => {
  it('[AUTH5] is renewed when less than a third of its life is left; one without times never', () => {
    const token = new Token(jwt({ iat: 1000, exp: 4000 }))
    expect([token.isAging(3_000_000), token.isAging(3_000_001)]).toEqual([false, true])
    token.replace(jwt({ iat: 4000, exp: 7000 }))
    expect(token.isAging(3_000_001)).toBe(false)
    for (const value of ['plain', jwt({ iat: 1 }), jwt({ iat: 'x', exp: 5 })])
      expect(new Token(value).isAging(Date.now())).toBe(false)
  })

  it('[BOX9] is in no line of the log', () => {
    const lines: string[] = []
    const write = process.stderr.write.bind(process.stderr)
    const out = process.stdout.write.bind(process.stdout)
    const keep = (text: unknown) => lines.push(String(text)) > 0
    process.stderr.write = keep
    process.stdout.write = keep
    const token = new Token('first-secret-token')
    token.replace('second-secret-token')
    log('x', { reason: 'first-secret-token second-secret-token' })
    process.stderr.write = write
    process.stdout.write = out
    expect(lines.join('')).not.toMatch(/(first|second)-secret-token/)
  })
})

describe('what the agent asks over HTTP', () => {
  const planeOf = (gatewayUrl: string) =>
    new ControlPlane({ gatewayUrl, sessionId: 'ses_1' } as never, new Token('the-token'))

  it.each([500, 429, 401])('[LINK4] is tried again after a %i, with its token', async (status) => {
    const { url, received } = await serve((_request, response, nth) =>
      nth === 1 ? json(response, status, {}) : json(response, 200, { a: 1 }),
    )
    expect(await planeOf(url).fetch('manifest', whole)).toEqual({ a: 1 })
    expect(received).toHaveLength(2)
    expect(received[0]?.headers['authorization']).toBe('Bearer the-token')
  })

  it('[LINK4] is not tried again after a refusal, and says what was said', async () => {
    const { url, received } = await serve((_request, response) => json(response, 403, { no: 1 }))
    await expect(planeOf(url).fetch('env', whole)).rejects.toThrow(
      'Cannot fetch the env: 403 {"no":1}',
    )
    expect(received).toHaveLength(1)
  })

  it('[LINK4] says why it could not, and follows no redirect', async () => {
    const elsewhere = await serve((_request, response) => json(response, 200, {}))
    const { url } = await serve((_request, response, nth) => {
      if (nth === 1) json(response, 307, {}, { location: elsewhere.url })
      else json(response, 400, {})
    })
    const plane = planeOf(url)
    await expect(plane.fetch('manifest', whole)).rejects.toThrow('400')
    expect(elsewhere.received).toEqual([])
    plane.stop()
    await expect(plane.fetch('manifest', whole)).rejects.toThrow('Cannot fetch the manifest: ')
  })

  it('[LIFE15] knows that it is fenced by the answer alone', async () => {
    let status = 200
    const { url, received } = await serve((_request, response) => json(response, status, {}))
    const fenced: boolean[] = []
    for (status of [200, 403, 404, 500, 401]) fenced.push(await planeOf(url).isFenced())
    expect(fenced).toEqual([false, true, true, false, false])
    expect(new Set(received.map(({ path }) => path))).toEqual(new Set(['/sandbox/ses_1/link']))
    expect(await planeOf('http://127.0.0.1:1').isFenced()).toBe(false)
    expect(planeOf(url).upload.url).toBe(`${url}/sandbox/ses_1/artifacts`)
  })
})

describe('an upload', () => {
  it('[CALL14] has the type of its name, and is tried again with pauses', async () => {
    const types: (string | undefined)[] = []
    const { url } = await serve((request, response, nth) => {
      types.push(request.headers['content-type'])
      if (nth === 1) return json(response, 503, {})
      const sha256 = 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'
      return json(response, 200, { sha256, size: 1 })
    })
    const options = { url, token: () => 't', firstBackoffMs: 1 }
    expect(await uploadFile(options, 'a/b.PNG', Buffer.from('a'))).toMatchObject({
      ...{ path: 'a/b.PNG', size: 1, contentType: 'image/png' },
    })
    await uploadFile(options, 'a/b.unknown', Buffer.from('a'))
    expect(types).toEqual(['image/png', 'image/png', 'application/octet-stream'])
    for (const [name, type] of [
      ...[['a.svg', 'image/svg+xml'] as const, ['a.json', 'application/json'] as const],
      ...[['a.html', 'text/html'] as const, ['a.md', 'text/markdown'] as const],
      ...[['a.mp4', 'video/mp4'] as const, ['a.log', 'text/plain'] as const],
      ...[['a.gif', 'image/gif'] as const, ['a.webp', 'image/webp'] as const],
      ...[['a.xml', 'application/xml'] as const, ['a.txt', 'text/plain'] as const],
      ...[['a.zip', 'application/zip'] as const, ['a.csv', 'text/csv'] as const],
    ])
      expect((await uploadFile(options, name, Buffer.from('a'))).contentType).toBe(type)
    await expect(uploadFile({ ...options, maxTries: 1 }, 'a', Buffer.from('b'))).rejects.toThrow(
      'received other bytes',
    )
    const refusing = await serve((_request, response) => json(response, 500, { why: 1 }))
    await expect(
      uploadFile({ ...options, url: refusing.url, maxTries: 2 }, 'x', Buffer.from('a')),
    ).rejects.toThrow('Cannot upload "x": 500 {"why":1}')
    expect(refusing.received).toHaveLength(2)
    await expect(
      uploadFile({ ...options, url: 'http://127.0.0.1:1', maxTries: 1 }, 'x', Buffer.from('a')),
    ).rejects.toThrow(/^Cannot upload "x": ./)
  })
})

async function connected(change: Partial<UplinkOptions> = {}, protocol = 2) {
  const folder = temporaryFolder()
  const seen: UpMessage[] = []
  const fenced: string[] = []
  const server = await serveSockets((text, peer) => {
    if (text === 'ping') return
    const message = UpMessage.parse(JSON.parse(text))
    seen.push(message)
    if (message.t === 'hello') peer.send({ t: 'welcome', protocol, ackedSeq: 0 })
  })
  const gate: Gate = new Gate((ask) => uplink.sendAsk(ask))
  const uplink = new Uplink({
    ...{ url: server.url, boot: 'boot', token: new Token('the-token'), gate },
    spool: new Spool(join(folder, 'events.jsonl')),
    results: new Results(join(folder, 'results.jsonl')),
    factsOf: () => ({ realPaths: [], shortened: true }),
    currentTurn: () => 'trn_1',
    onCommand: async () => {},
    onFenced: (reason) => void fenced.push(reason),
    isFenced: async () => false,
    ...change,
  })
  onTestFinished(() => uplink.stop(0))
  uplink.start()
  await expect.poll(() => seen.some(({ t }) => t === 'hello'), { timeout: 20_000 }).toBe(true)
  const of = (kind: UpMessage['t']) => seen.filter(({ t }) => t === kind)
  const comes = async (kind: UpMessage['t']) => {
    await expect.poll(() => of(kind).length, { timeout: 20_000 }).toBeGreaterThan(0)
    return of(kind).at(-1)
  }
  return { ...server, uplink, gate, seen, of, comes, fenced }
}

describe('the uplink', () => {
  it('[LINK4] tells that it is ready, that it has failed and that it is alive, at once', async () => {
    const { uplink, comes } = await connected()
    await expect.poll(() => uplink.beats, { timeout: 20_000 }).toBe(true)
    const enclosure = { level: 'none' as const, how: 'x', why: 'y' }
    uplink.ready(5, ['real-path'] as never, enclosure)
    const ready = { t: 'ready', bootMs: 5, enforces: ['real-path'], enclosure }
    expect(await comes('ready')).toEqual(ready)
    uplink.alive()
    expect(await comes('alive')).toEqual({ t: 'alive', turnId: 'trn_1' })
    uplink.failed('x'.repeat(5000))
    expect(await comes('failed')).toEqual({ t: 'failed', reason: 'x'.repeat(4000) })
  })

  it('[GATE1] cuts what is too long in a question, and names its turn', async () => {
    const { uplink, gate, comes } = await connected()
    await expect.poll(() => uplink.beats, { timeout: 20_000 }).toBe(true)
    gate.open('trn_1')
    void gate.ask(
      {
        ...{ askId: `ask_${'1'.repeat(20)}`, tool: 't'.repeat(300), callId: 'c'.repeat(300) },
        ...{ sessionID: 's', input: {} },
      },
      10,
    )
    const ask = await comes('ask')
    expect(ask).toMatchObject({
      ...{ tool: 't'.repeat(200), callId: 'c'.repeat(200), turnId: 'trn_1', shortened: true },
    })
  })

  it('[LIFE15] a fenced link ends for good, and says so once', async () => {
    const world = await connected()
    world.peers.at(-1)?.close(linkClose.fenced)
    await expect.poll(() => world.fenced, { timeout: 20_000 }).toEqual(['closed with 4403'])
    expect(world.of('hello')).toHaveLength(1)
  })
})
