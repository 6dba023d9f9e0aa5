import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  makeExecutor,
  makePlace,
  newAttempt,
  operationOf,
  planOf,
  sandboxUser,
} from '../execute-kit.ts'
import { serve } from '../../support.ts'

async function setUp() {
  const { root, site } = makePlace(sandboxUser)
  const { executor, uploads } = makeExecutor(site, join(root, 'attempts'))
  const server = await serve((request, response) => {
    if (request.path === '/text') return void response.end('hello ü')
    if (request.path === '/binary.png') return void response.end(Buffer.from([0, 255]))
    if (request.path === '/hang') return void response.writeHead(200).write('begun')
    if (request.path === '/away')
      return void response.writeHead(302, { location: '/text' }).end('moved')
    if (request.path === '/bomb')
      return void response
        .writeHead(200, { 'content-encoding': 'gzip' })
        .end(gzipSync(Buffer.alloc(64 * 1024 * 1024, 'a')))
    return void response.writeHead(404).end('nothing here')
  })
  const get = (path: string, limits: object = {}, network = true) =>
    executor.execute({
      attemptId: newAttempt(),
      operation: operationOf('fetch', { url: `${server.url}${path}` }),
      plan: planOf('process-sandbox', { network }, limits),
    })
  return { get, uploads, received: server.received }
}

describe('fetching', () => {
  it('[EXEC21] one GET without credentials; text is shown, anything else uploaded', async () => {
    const { get, uploads, received } = await setUp()
    expect(await get('/text')).toMatchObject({
      status: 'succeeded',
      output: 'hello ü',
      truncated: false,
    })
    expect(received[0]?.method).toBe('GET')
    expect(Object.keys(received[0]?.headers ?? {})).not.toContain('authorization')
    expect(await get('/binary.png')).toMatchObject({ files: [{ path: 'binary.png', size: 2 }] })
    expect(uploads).toHaveLength(1)
  })

  it('[EXEC21] a redirect is told and not followed, and an error keeps its body', async () => {
    const { get, received } = await setUp()
    expect(await get('/away')).toMatchObject({
      status: 'failed',
      output: 'moved',
      error: 'HTTP 302: not followed to "/text"',
    })
    expect(received).toHaveLength(1)
    expect(await get('/nowhere')).toMatchObject({
      status: 'failed',
      output: 'nothing here',
      error: 'HTTP 404',
    })
  })

  it('[EXEC21] it ends in time, and no answer is too large', async () => {
    const { get } = await setUp()
    expect((await get('/hang', { timeoutMs: 300 })).error).toContain('no end after 300 ms')
    const bomb = await get('/bomb', { outputBytes: 1000 })
    expect([bomb.output.length, bomb.truncated, bomb.status]).toEqual([1000, true, 'succeeded'])
  })

  it('[EXEC21] nothing is fetched by a plan without the network', async () => {
    const { get, received } = await setUp()
    expect((await get('/text', {}, false)).error).toBe('Cannot fetch: the plan allows no network')
    expect(received).toEqual([])
  })
})
