// SOCKS 5 for programs that know no HTTP proxy: one CONNECT per connection, without a password, since whoever reaches the
// port is inside. Names come as names and are resolved by the proxy; an answer other than success says why in its code.

import type { Socket } from 'node:net'

const version = 5
const noPassword = 0
const noneAcceptable = 0xff
const connectCommand = 1
const handshakeMs = 10_000

export const socksAnswers = {
  done: 0,
  notAllowed: 2,
  unreachable: 4,
  unknownCommand: 7,
  unknownAddress: 8,
} as const
type Answer = (typeof socksAnswers)[keyof typeof socksAnswers]

/** Where it wants to go; undefined: it has been refused, or has gone. What it sent beyond stays to be read. */
export function readSocksTarget(socket: Socket): Promise<string | undefined> {
  return new Promise((resolve) => {
    let seen = Buffer.alloc(0)
    let isGreeted = false
    const settle = (target?: string) => {
      socket.off('data', hear).off('close', gone).off('end', gone)
      socket.setTimeout(0)
      resolve(target)
    }
    const gone = () => {
      socket.destroy()
      settle()
    }
    const hear = (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk])
      if (!isGreeted) {
        const greeting = readGreeting(seen)
        if (greeting === undefined) return
        isGreeted = true
        if (!greeting.accepted) {
          refuseGreeting(socket, greeting.isSocks)
          return settle()
        }
        socket.write(Buffer.from([version, noPassword]))
        seen = seen.subarray(greeting.bytes)
      }
      const request = readRequest(seen)
      if (request === undefined) return
      if ('answer' in request) {
        answerSocks(socket, request.answer)
        return settle()
      }
      socket.pause()
      if (seen.length > request.bytes) socket.unshift(seen.subarray(request.bytes))
      settle(request.target)
    }
    socket.setTimeout(handshakeMs, gone)
    socket.on('data', hear).on('close', gone).on('end', gone)
  })
}

export function answerSocks(socket: Socket, answer: Answer): void {
  // The address that it would name is nobody's business.
  const reply = Buffer.from([version, answer, 0, 1, 0, 0, 0, 0, 0, 0])
  if (answer === socksAnswers.done) socket.write(reply)
  else socket.end(reply)
}

function refuseGreeting(socket: Socket, isSocks: boolean): void {
  if (isSocks) socket.end(Buffer.from([version, noneAcceptable]))
  else socket.destroy()
}

/** undefined: there is more to come. */
function readGreeting(
  seen: Buffer,
): { bytes: number; accepted: boolean; isSocks: boolean } | undefined {
  const [first, methods] = seen
  if (first !== version) return { bytes: 0, accepted: false, isSocks: false }
  const bytes = 2 + (methods ?? 255)
  if (seen.length < bytes) return undefined
  return { bytes, accepted: seen.subarray(2, bytes).includes(noPassword), isSocks: true }
}

type Request = { target: string; bytes: number } | { answer: Answer }

function readRequest(seen: Buffer): Request | undefined {
  if (seen.length < 5) return undefined
  const [, command, , kind = 0, length = 0] = seen
  const hostBytes = kind === 3 ? 1 + length : { 1: 4, 4: 16 }[kind]
  if (hostBytes === undefined) return { answer: socksAnswers.unknownAddress }
  const bytes = 4 + hostBytes + 2
  if (seen.length < bytes) return undefined
  if (command !== connectCommand) return { answer: socksAnswers.unknownCommand }
  const host = hostOf(kind, seen.subarray(4, 4 + hostBytes))
  if (host === undefined) return { answer: socksAnswers.unknownAddress }
  return { target: `${host}:${seen.readUInt16BE(4 + hostBytes)}`, bytes }
}

function hostOf(kind: number, address: Buffer): string | undefined {
  if (kind === 1) return address.join('.')
  if (kind === 4) return `[${groups(address).join(':')}]`
  const name = address.subarray(1).toString('latin1')
  return /^[!-~]+$/.test(name) ? name : undefined
}

const groups = (address: Buffer): string[] =>
  Array.from({ length: 8 }, (_, n) => address.readUInt16BE(2 * n).toString(16))
