import { createHash } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** As much of a WebSocket server as a test of the link needs: short text messages, closing with a code, cutting. */
export async function serveSockets(
  onMessage: (message: string, peer: Peer) => void,
  onRequest: RequestListener = (_request, response) => void response.writeHead(404).end(),
) {
  const peers: Peer[] = []
  const state = { refuse: false, opened: 0 }
  const server = createServer(onRequest)
  server.on('upgrade', (request, socket: Socket) => {
    state.opened += 1
    socket.on('error', () => undefined)
    if (state.refuse) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
      return
    }
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
    const accept = createHash('sha1').update(key).digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    )
    const peer = new Peer(socket, request.headers.authorization ?? '')
    peers.push(peer)
    let received = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      for (let frame = readFrame(received); frame; frame = readFrame(received)) {
        received = received.subarray(frame.length)
        if (frame.opcode === 1) onMessage(frame.text, peer)
        if (frame.opcode === 8) socket.end()
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const peer of peers) peer.cut()
    server.close()
  })
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, peers, state }
}

export class Peer {
  readonly #socket: Socket
  readonly authorization: string

  constructor(socket: Socket, authorization: string) {
    this.#socket = socket
    this.authorization = authorization
  }

  send(message: object): void {
    const payload = Buffer.from(JSON.stringify(message))
    const head =
      payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 255]
    this.#socket.write(Buffer.concat([Buffer.from([0x81, ...head]), payload]))
  }

  close(code: number): void {
    this.#socket.write(Buffer.from([0x88, 2, code >> 8, code & 255]))
  }

  cut(): void {
    this.#socket.destroy()
  }
}

function readFrame(bytes: Buffer): { opcode: number; text: string; length: number } | undefined {
  const short = (bytes[1] ?? 0) & 127
  const start = short === 126 ? 4 : short === 127 ? 10 : 2
  if (bytes.length < start + 4) return undefined
  const size =
    short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short
  if (bytes.length < start + 4 + size) return undefined
  const payload = Buffer.from(bytes.subarray(start + 4, start + 4 + size))
  for (const [index, byte] of payload.entries()) {
    payload[index] = byte ^ (bytes[start + (index & 3)] as number)
  }
  return {
    opcode: (bytes[0] as number) & 15,
    text: payload.toString('utf8'),
    length: start + 4 + size,
  }
}
