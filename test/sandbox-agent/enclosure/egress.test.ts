import { get, request } from 'node:http'
import { type AddressInfo, connect, createServer as createListener, type Server } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isPublicAddress } from '../../../sandbox-agent/enclosure/addresses.ts'
import { Egress, type EgressOptions } from '../../../sandbox-agent/enclosure/egress.ts'
import { egressQuestions } from '../../../sandbox-agent/gate/egress-questions.ts'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { opencodeClientText } from '../../../sandbox-agent/opencode/client.ts'
import { serve } from '../support.ts'

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

/** A proxy, and a server that stands for a host of the internet under any name that ends with .test. */
async function setUp(options: Partial<EgressOptions> = {}) {
  const { url, received } = await serve((_, response) => void response.end('from outside'))
  const port = Number(new URL(url).port)
  const asked: string[] = []
  const egress = new Egress({
    decide: async (host) => {
      asked.push(host)
      return { allow: true, reason: '' }
    },
    privateHosts: () => [`good.test:${port}`],
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    ...options,
  })
  const listener = createListener()
  const proxy = await listen(listener)
  /** The first program has closed its connection. */
  const left = new Promise<void>((resolve) =>
    listener.once('connection', (socket) => socket.once('close', () => resolve())),
  )
  egress.serve(listener)
  const socksListener = createListener({ allowHalfOpen: true })
  const socksPort = await listen(socksListener)
  egress.serveSocks(socksListener)
  onTestFinished(() => egress.close())
  const tunnel = (target: string) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      const sent = request({ port: proxy, method: 'CONNECT', path: target })
      sent.on('error', reject)
      sent.on('connect', (answer, socket, head) => {
        let body = head.toString()
        socket.on('data', (chunk: Buffer) => (body += chunk.toString()))
        socket.on('close', () => resolve({ status: answer.statusCode ?? 0, body }))
        if (answer.statusCode === 200)
          socket.write(`GET /x HTTP/1.1\r\nhost: ${target}\r\nconnection: close\r\n\r\n`)
      })
      sent.end()
    })
  const plain = async (path: string) => {
    const answer = await new Promise<Parameters<typeof opencodeClientText>[0]>((resolve, reject) =>
      get({ port: proxy, path, headers: { 'proxy-authorization': 'x' } }, resolve).on(
        'error',
        reject,
      ),
    )
    return { status: answer.statusCode, body: await opencodeClientText(answer) }
  }
  /** All that it says to these bytes, after which nothing more comes. */
  const socks = async (bytes: number[]) => {
    const socket = connect(socksPort, '127.0.0.1')
    socket.end(Buffer.from(bytes))
    return buffer(socket)
  }
  return { proxy, left, port, received, asked, tunnel, plain, socks }
}

describe('the way out of an enclosure', () => {
  it('[WALL11] carries tunnels and plain requests to what the policy allows', async () => {
    const { port, received, asked, tunnel, plain } = await setUp()
    const tunnelled = await tunnel(`good.test:${port}`)
    expect(tunnelled.status).toBe(200)
    expect(tunnelled.body).toContain('from outside')
    expect(await plain(`http://good.test:${port}/y?z`)).toEqual({
      status: 200,
      body: 'from outside',
    })
    expect(received.map(({ path }) => path)).toEqual(['/x', '/y?z'])
    expect(received[1]?.headers).not.toHaveProperty('proxy-authorization')
    expect(asked).toEqual(['good.test', 'good.test'])
  })

  it('[WALL11] ends what was opened for a program that has left while somebody was asked', async () => {
    const ended: Promise<void>[] = []
    const idle = createListener((socket) => {
      ended.push(new Promise((resolve) => socket.on('close', () => resolve()).resume()))
    })
    const port = await listen(idle)
    let answered: (answer: { allow: boolean; reason: string }) => void = () => undefined
    let asked: () => void = () => undefined
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const { proxy, left } = await setUp({
      privateHosts: () => [`good.test:${port}`],
      decide: () => {
        asked()
        return new Promise((resolve) => (answered = resolve))
      },
    })
    const gone = connect(proxy, '127.0.0.1')
    gone.on('error', () => undefined)
    gone.write(`CONNECT good.test:${port} HTTP/1.1\r\nhost: good.test\r\n\r\n`)
    await isAsked
    gone.resetAndDestroy()
    await left
    answered({ allow: true, reason: '' })
    await expect.poll(() => ended.length).toBe(1)
    await ended[0]
  })

  it('[WALL11] refuses what the policy denies, with its reason', async () => {
    const decide = async () => ({ allow: false, reason: 'Not today' })
    const { port, received, tunnel, plain } = await setUp({ decide })
    expect(await plain(`http://good.test:${port}/`)).toMatchObject({
      status: 403,
      body: expect.stringContaining('Not today'),
    })
    expect((await tunnel(`good.test:${port}`)).status).toBe(403)
    expect(received).toEqual([])
  })

  it('[WALL13] asks for a host by its one name: without the dot of the root, in small letters, in ASCII', async () => {
    const { port, asked, tunnel, plain } = await setUp()
    for (const host of ['good.test', 'good.test.', 'GOOD.test', 'Good.Test.'])
      expect((await tunnel(`${host}:${port}`)).status, host).toBe(200)
    expect((await plain(`http://good.test.:${port}/`)).status).toBe(200)
    expect(new Set(asked)).toEqual(new Set(['good.test']))
    expect((await tunnel(`g%6fod.test:${port}`)).status).toBe(403)
  })

  it('[WALL12] refuses every address that is not on the internet, by number or by name, and asks nobody about numbers', async () => {
    const { port, received, asked, tunnel, plain } = await setUp()
    for (const host of [`127.0.0.1:${port}`, `bad.test:${port}`, '169.254.169.254:80', '[::1]:80'])
      expect(await tunnel(host), host).toMatchObject({ status: 403 })
    for (const url of [
      `http://127.0.0.1:${port}/`,
      'http://2130706433/',
      'http://[::ffff:7f00:1]/',
    ])
      expect(await plain(url), url).toMatchObject({ status: 403 })
    expect(received).toEqual([])
    expect(asked).toEqual(['bad.test'])
  })

  it('[WALL12] resolves no name that is not allowed: its name server would learn what it says', async () => {
    const resolved: string[] = []
    const resolve = async (host: string) => {
      resolved.push(host)
      return [{ address: '127.0.0.1', family: 4 }]
    }
    for (const answer of [{ allow: false, reason: 'no' }, undefined]) {
      const { port, tunnel, plain } = await setUp({ decide: async () => answer, resolve })
      expect((await tunnel(`secret.bad.test:${port}`)).status).toBe(403)
      expect((await plain(`http://secret.bad.test:${port}/`)).status).toBe(403)
    }
    expect(resolved).toEqual([])
  })

  it('[WALL12] knows a host by one name only, and what no host is called is refused unasked', async () => {
    const { port, received, asked, tunnel, plain } = await setUp()
    for (const target of [
      `good.test..:${port}`,
      `good..test:${port}`,
      `.good.test:${port}`,
      `..:${port}`,
      'good.test:0',
      'good.test:65536',
      'good.test:99999',
      `[good.test]:${port}`,
      `good.test%00.evil.test:${port}`,
    ])
      expect((await tunnel(target)).status, target).toBe(403)
    expect((await plain(`http://good.test..:${port}/`)).status).toBe(403)
    expect(asked).toEqual([])
    // A number in another spelling is a name until it is looked up, and then it is looked at.
    for (const target of ['0x7f.1:80', '2130706433:80', '0177.0.0.1:80', '127.1:80', '0:80'])
      expect((await tunnel(target)).status, target).toBe(403)
    for (const target of ['[::ffff:169.254.169.254]:80', '[::ffff:a9fe:a9fe]:80', '[::]:80'])
      expect((await tunnel(target)).status, target).toBe(403)
    expect(received).toEqual([])
  })

  it('[WALL12] a name is looked up once, and one address of it that is not on the internet refuses it', async () => {
    let looks = 0
    const once = async () => {
      looks += 1
      return [{ address: '127.0.0.1', family: 4 }]
    }
    const one = await setUp({ resolve: once })
    expect((await one.tunnel(`good.test:${one.port}`)).status).toBe(200)
    expect(looks).toBe(1)
    const mixed = [
      { address: '1.1.1.1', family: 4 },
      { address: '169.254.169.254', family: 4 },
    ]
    const both = await setUp({ privateHosts: () => [], resolve: async () => mixed })
    expect((await both.tunnel('both.test:443')).status).toBe(403)
  })

  it('[WALL11] is no server for anything else', async () => {
    const { tunnel, plain } = await setUp()
    for (const target of ['good.test', 'a@b:80', 'good.test:x', '/'])
      expect((await tunnel(target)).status, target).toBe(403)
    for (const url of ['/', 'https://good.test/', 'ftp://good.test/'])
      expect((await plain(url)).status, url).toBe(403)
  })
})

describe('the same by SOCKS', () => {
  const greeting = [5, 1, 0]
  const toName = (name: string, port: number, command = 1) => [
    ...[5, command, 0, 3, name.length, ...Buffer.from(name), port >> 8, port & 255],
  ]
  const get = 'GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'

  it('[WALL16] carries connections by name to what the policy allows, also if everything comes at once', async () => {
    const { port, received, asked, socks } = await setUp()
    const said = await socks([...greeting, ...toName('good.test', port), ...Buffer.from(get)])
    expect([...said.subarray(0, 12)]).toEqual([5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    expect(said.toString()).toContain('from outside')
    expect(received.map(({ path }) => path)).toEqual(['/x'])
    expect(asked).toEqual(['good.test'])
  })

  it('[WALL16] refuses what the policy denies or nobody has answered yet, and resolves no name of it', async () => {
    const resolve = async () => expect.unreachable()
    for (const answer of [{ allow: false, reason: 'no' }, undefined]) {
      const { port, socks } = await setUp({ decide: async () => answer, resolve })
      expect((await socks([...greeting, ...toName('good.test', port)]))[3]).toBe(2)
    }
  })

  it('[WALL16] refuses addresses that are not on the internet, by number or by name', async () => {
    const { port, received, asked, socks } = await setUp()
    const [high, low] = [port >> 8, port & 255]
    for (const request of [
      [5, 1, 0, 1, 127, 0, 0, 1, high, low],
      [5, 1, 0, 1, 169, 254, 169, 254, 0, 80],
      [5, 1, 0, 4, ...Array<number>(15).fill(0), 1, high, low],
      toName('127.0.0.1', port),
      toName('bad.test', port),
    ])
      expect((await socks([...greeting, ...request]))[3], request.join(' ')).toBe(2)
    expect(received).toEqual([])
    expect(asked).toEqual(['bad.test'])
  })

  it('[WALL16] is no server for anything else', async () => {
    const { port, asked, socks } = await setUp()
    expect([...(await socks([5, 1, 2]))]).toEqual([5, 255])
    expect([...(await socks([4, 1, 0, 80]))]).toEqual([])
    expect((await socks([...greeting, ...toName('good.test', port, 2)]))[3]).toBe(7)
    expect((await socks([...greeting, 5, 1, 0, 9, 0]))[3]).toBe(8)
    expect((await socks([...greeting, ...toName('a\0b', port)]))[3]).toBe(8)
    expect((await socks([...greeting, ...toName('a@b', port)]))[3]).toBe(2)
    expect([...(await socks([...greeting, 5, 1]))]).toEqual([5, 0])
    expect(asked).toEqual([])
  })
})

describe('its questions', () => {
  it('[WALL13] one per host, port and turn; what waits is refused for now and passes once it is approved', async () => {
    const sent: { askId: string; input: unknown }[] = []
    const gate = new Gate(({ askId, input }) => void sent.push({ askId, input }))
    gate.linkUp()
    const decide = egressQuestions(gate, 20)
    expect(await decide('a.test', 443)).toMatchObject({
      allow: false,
      reason: 'No turn is running',
    })
    gate.open('trn_1')
    const both = await Promise.all([decide('a.test', 443), decide('a.test', 443)])
    expect(both).toEqual([undefined, undefined])
    expect(sent).toMatchObject([{ input: { host: 'a.test', port: 443 } }])
    gate.answer(sent[0]?.askId ?? '', { decision: 'allow', reason: 'yes' })
    expect(await decide('a.test', 443)).toEqual({ allow: true, reason: 'yes' })
    expect(await decide('a.test', 80)).toBeUndefined()
    expect(sent).toHaveLength(2)
    gate.open('trn_2')
    expect(await decide('a.test', 443)).toBeUndefined()
    expect(sent).toHaveLength(3)
    // A question of its own: under the old id it would have the answer of the turn before.
    expect(new Set(sent.map(({ askId }) => askId)).size).toBe(3)
  })

  it('[WALL13] a program that names ever new hosts buries nobody in questions', async () => {
    const sent: string[] = []
    const gate = new Gate(({ askId }) => void sent.push(askId))
    gate.linkUp()
    gate.open('trn_1')
    const decide = egressQuestions(gate, 1)
    const many = (name: string, count: number) =>
      Promise.all(Array.from({ length: count }, (_, n) => decide(`${n}.${name}.test`, 443)))
    const answers = await many('a', 200)
    expect(sent).toHaveLength(32)
    expect(answers.filter((answer) => answer?.allow === false)).toHaveLength(168)
    // What was asked goes on waiting, and an answer makes room for another question.
    expect(await decide('0.a.test', 443)).toBeUndefined()
    for (const askId of sent) gate.answer(askId, { decision: 'allow', reason: 'yes' })
    expect(await decide('0.a.test', 443)).toMatchObject({ allow: true })
    // Answered at once, as by a rule.
    const ruled = new Gate(({ askId }) => {
      sent.push(askId)
      ruled.answer(askId, { decision: 'deny', reason: 'no' })
    })
    ruled.linkUp()
    ruled.open('trn_1')
    sent.length = 0
    const asks = egressQuestions(ruled, 1)
    for (let n = 0; n < 600; n += 1) await asks(`${n}.test`, 443)
    expect(sent).toHaveLength(500)
    expect(await asks('0.test', 443)).toMatchObject({ reason: 'no' })
    ruled.open('trn_2')
    expect(await asks('new.test', 443)).toMatchObject({ reason: 'no' })
  })
})

const outside = ['1.1.1.1', '2606:4700::1111']
const inside = [
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '127.9.9.9', '169.254.169.254', '172.31.0.1'],
  // Azure's.
  '168.63.129.16',
  ...['192.168.1.1', '224.0.0.1', '255.255.255.255', '::', '::1', '::ffff:8.8.8.8', 'no'],
  ...['64:ff9b::7f00:1', '2002:7f00:1::', 'fc00::1', 'fd00:ec2::254', 'fe80::1'],
]
it('[WALL12] knows which addresses are on the internet', () => {
  expect([...outside, ...inside].filter(isPublicAddress)).toEqual(outside)
})
