import { writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

// A machine has its own loopback. What it connects to there goes by a socket file, which network namespaces share, to
// this computer's loopback.

/** The machine's end: listens on its loopback. */
if (process.argv[1] === import.meta.filename) {
  const [folder = '', ...ports] = process.argv.slice(2)
  for (const port of ports) {
    const server = relay((socket) => connected(socket, connect(join(folder, port))))
    await new Promise<void>((resolve) => server.listen(Number(port), '127.0.0.1', resolve))
  }
  writeFileSync(join(folder, '..', 'up'), '')
}

/** This computer's end, for one port. */
export async function openPort(folder: string, port: number): Promise<Server> {
  const server = relay((socket) => connected(socket, connect(port, '127.0.0.1')))
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject).listen(join(folder, String(port)), resolve)
  await promise
  return server
}

function relay(serve: (socket: Socket) => void): Server {
  return createServer({ allowHalfOpen: true }, serve)
}

function connected(socket: Socket, other: Socket): void {
  other.allowHalfOpen = true
  const end = () => {
    socket.destroy()
    other.destroy()
  }
  socket.once('error', end).pipe(other)
  other.once('error', end).pipe(socket)
}
