import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { createBlobs } from '../../src/adapters/blobs.ts'
import { createLibsql } from '../../src/adapters/libsql.ts'
import { cryptoSha256 } from '../../src/adapters/web-crypto.ts'
import { blobsSuite } from '../suites/blobs.ts'
import { dbSuite } from '../suites/db.ts'
import { memoriesSuite } from '../suites/memories.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
dbSuite('libSQL', libsql.db)
memoriesSuite('libSQL', libsql.db)
blobsSuite('libSQL', () => createBlobs(libsql.db(), () => 1))

test('a blob whose upload broke off is not there, and can be put again', async () => {
  const bytes = new Uint8Array(600_000).fill(7)
  const hash = 'a'.repeat(64)
  const db = libsql.db()
  const holder = { organisationId: 'org_a', sessionId: 'ses_a' }
  let writes = 0
  const broken = createBlobs(
    {
      all: (...args) => db.all(...args),
      batch: async (statements) => {
        if (++writes === 3) throw new Error('cut')
        await db.batch(statements)
      },
    },
    () => 1,
  )
  await expect(broken.put(holder, hash, bytes)).rejects.toThrow('cut')
  const blobs = createBlobs(db, () => 1)
  expect(await blobs.get('org_a', hash)).toBeNull()
  await blobs.put(holder, hash, bytes)
  expect(await cryptoSha256((await blobs.get('org_a', hash)) as Uint8Array)).toBe(
    await cryptoSha256(bytes),
  )
})

describe('a libSQL server that does not answer as it should', () => {
  const stops: (() => void)[] = []
  afterEach(() => stops.splice(0).forEach((stop) => stop()))

  /** Answers like the real one after `answers` other ones. */
  async function before(answers: (number | 'hang' | 'cut')[]) {
    let requests = 0
    const server = createServer((request, response) => {
      const answer = answers[requests++]
      if (answer === 'hang') return
      if (answer === 'cut') {
        request.socket.destroy()
        return
      }
      if (answer !== undefined) {
        response.writeHead(answer).end('no')
        return
      }
      const body: Buffer[] = []
      request.on('data', (chunk: Buffer) => body.push(chunk))
      request.on('end', () => {
        void fetch(`${libsql.server().url}${request.url}`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            authorization: request.headers.authorization ?? '',
          },
          body: Buffer.concat(body),
        }).then(async (real) => {
          response.writeHead(real.status, { 'content-type': 'application/json' })
          response.end(await real.text())
        })
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    stops.push(() => {
      server.closeAllConnections()
      server.close()
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const db = createLibsql({ url, token: libsql.server().token, requestTimeoutMs: 300 })
    return { db, requests: () => requests }
  }

  for (const answers of [[429], [503, 429, 500], ['cut']] as const) {
    test(`${answers.join(', ')}: it is asked again`, async () => {
      const { db, requests } = await before([...answers])
      expect(await db.all('select 1 as one')).toEqual([{ one: 1 }])
      expect(requests()).toBe(answers.length + 1)
    })
  }

  test('busy for good: unavailable after a while', async () => {
    const { db } = await before(Array.from({ length: 100 }, () => 429))
    await expect(db.all('select 1')).rejects.toMatchObject({ code: 'storage_unavailable' })
  })

  test('no answer: unavailable after one timeout, not asked again', async () => {
    const { db, requests } = await before(['hang'])
    await expect(db.all('select 1')).rejects.toMatchObject({ code: 'storage_unavailable' })
    expect(requests()).toBe(1)
  })

  test('nobody there, or a token that it refuses: unavailable', async () => {
    const away = createLibsql({ url: 'http://127.0.0.1:9', token: null })
    await expect(away.all('select 1')).rejects.toMatchObject({ code: 'storage_unavailable' })
    await expect(away.batch([{ sql: 'select 1', values: [] }])).rejects.toMatchObject({
      code: 'storage_unavailable',
    })
    const stranger = createLibsql({ url: libsql.server().url, token: 'wrong' })
    await expect(stranger.all('select 1')).rejects.toMatchObject({ code: 'storage_unavailable' })
  })
})
