import type { Stack } from '../local/stack/stack.ts'
import { createTarget } from './calls.ts'
import type { Row } from './table.ts'

const messages = 200
const perMessage = 50
/** Messages on their way at once: an agent does not wait for each acknowledgement. */
const window = 8

/** Events per second from one agent into one session, against the same bytes into a bare object that stores them. */
export async function measureEvents(stack: Stack, base: Stack): Promise<Row> {
  const bare = async () => {
    const socket = await openSocket(`${base.url}/link/events-${Math.random()}`, {})
    return pump(socket)
  }
  const first = await bare()
  const target = await createTarget(stack)
  const socket = await openSocket(`${stack.url}/sandbox/${target.sessionId}/link`, {
    authorization: `Bearer ${target.token}`,
  })
  socket.send(
    JSON.stringify({ t: 'hello', protocols: [1], agent: 'bench', boot: 'bench', ready: true }),
  )
  const ours = await pump(socket)
  return {
    measure: 'events through the link',
    ours,
    base: first,
    baseAgain: await bare(),
    unit: '/s',
    aim: { least: 0.6 },
  }
}

export function openSocket(url: string, headers: Record<string, string>): Promise<WebSocket> {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers })
  return new Promise((resolve, reject) => {
    socket.addEventListener('open', () => resolve(socket))
    socket.addEventListener('error', () => reject(new Error(`Cannot open ${url}`)))
  })
}

function pump(socket: WebSocket): Promise<number> {
  let sent = 0
  const send = () => {
    if (sent >= messages) return
    const items = Array.from({ length: perMessage }, (_, k) => event(sent * perMessage + k + 1))
    sent += 1
    socket.send(JSON.stringify({ t: 'events', items }))
  }
  const started = performance.now()
  for (let k = 0; k < window; k++) send()
  return new Promise((resolve) => {
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as { t: string; seq?: number }
      if (message.t !== 'ack') return
      if (message.seq === messages * perMessage) {
        socket.close()
        resolve((messages * perMessage) / ((performance.now() - started) / 1000))
      } else send()
    })
  })
}

function event(seq: number) {
  const data = {
    turnId: null,
    sessionId: 'ses_bench',
    messageId: 'msg_bench',
    partId: `prt_${seq}`,
    text: 'A line of text about as long as what a model says in one step of its work.',
    reasoning: false,
  }
  return { seq, at: Date.now(), kind: 'message.text', data }
}
