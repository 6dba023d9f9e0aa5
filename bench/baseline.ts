import { DurableObject } from 'cloudflare:workers'
import { Hono } from 'hono'

/** The least that could do the job: one route, one object, one row. What Gantry costs is measured against this. */
interface Env {
  BASE: DurableObjectNamespace<BaseObject>
}

export class BaseObject extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    ctx.storage.sql.exec('create table if not exists rows (id text primary key, body text)')
  }
  write(id: string, body: string) {
    this.ctx.storage.sql.exec('insert or replace into rows values (?, ?)', id, body)
    return body
  }
  read(id: string) {
    return String(this.ctx.storage.sql.exec('select body from rows where id = ?', id).one()['body'])
  }
  override async fetch() {
    const pair = new WebSocketPair()
    this.ctx.acceptWebSocket(pair[1])
    return new Response(null, { status: 101, webSocket: pair[0] })
  }
  override webSocketMessage(socket: WebSocket, text: string) {
    const { items } = JSON.parse(text) as { items: { seq: number }[] }
    for (const item of items) this.write(String(item.seq), JSON.stringify(item))
    socket.send(JSON.stringify({ t: 'ack', seq: items.at(-1)?.seq }))
  }
}

const answer = JSON.stringify({ success: true, result: 'done' })
export default new Hono<{ Bindings: Env }>()
  .get('/', (c) => c.text('up'))
  .get('/link/:object', (c) => c.env.BASE.getByName(c.req.param('object')).fetch(c.req.raw))
  .post('/write/:object', async (c) => {
    const body = await c.req.json<{ tool_call_id: string }>()
    return c.body(
      await c.env.BASE.getByName(c.req.param('object')).write(body.tool_call_id, answer),
    )
  })
  .post('/read/:object', async (c) => {
    const body = await c.req.json<{ tool_call_id: string }>()
    return c.body(await c.env.BASE.getByName(c.req.param('object')).read(body.tool_call_id))
  })
