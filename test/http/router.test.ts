import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { GroupedRouter } from '../../src/http/router.ts'

const text = async (app: Hono, path: string) => (await app.request(path)).text()

test('[API2] what is for every path stands before the route of each group', async () => {
  const app = new Hono({ router: new GroupedRouter() })
  app.use((c, next) => {
    c.header('x-seen', 'yes')
    return next()
  })
  app.get('/v1/runs', (c) => c.text('runs'))
  app.get('/v1/runs/:id', (c) => c.text(`run ${c.req.param('id')}`))
  // hono's quick router refuses a fixed path behind a parameter, and then the other one takes the group.
  app.get('/v1/runs/latest', (c) => c.text('never'))
  app.get('/v1/sessions/:id/turns/:turn', (c) => c.text(JSON.stringify(c.req.param())))
  app.get('/healthz', (c) => c.text('up'))
  app.get('/:any/else', (c) => c.text(`else ${c.req.param('any')}`))
  app.notFound((c) => c.text('nothing', 404))

  expect(await text(app, '/v1/runs')).toBe('runs')
  expect(await text(app, '/v1/runs/a')).toBe('run a')
  expect(await text(app, '/v1/runs/latest')).toBe('run latest')
  expect(await text(app, '/v1/sessions/a/turns/b')).toBe('{"id":"a","turn":"b"}')
  expect(await text(app, '/healthz')).toBe('up')
  expect(await text(app, '/healthz/else')).toBe('else healthz')
  expect(await text(app, '/other/else')).toBe('else other')
  for (const path of ['/', '/v1', '/v1/', '/v1/run', '/v1/runs/', '/healthz/', '/runs']) {
    const answer = await app.request(path)
    expect([path, answer.status, answer.headers.get('x-seen')]).toEqual([path, 404, 'yes'])
  }

  app.get('/v1/runs/:id/late', (c) => c.text('late'))
  expect(await text(app, '/v1/runs/a/late')).toBe('late')
})
