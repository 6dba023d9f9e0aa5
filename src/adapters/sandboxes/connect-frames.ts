import { unavailable } from './e2b-api.ts'

// The envelopes of the Connect protocol's streams: one byte of flags, four of length, then JSON.

const endOfStream = 2
const headBytes = 5
const maxFrameBytes = 16 * 1024 * 1024

export function connectFrame(message: object): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(JSON.stringify(message))
  const bytes = new Uint8Array(headBytes + body.length)
  new DataView(bytes.buffer).setUint32(1, body.length)
  bytes.set(body, headBytes)
  return bytes
}

/** The messages of a stream. Whoever stops reading closes it. Throws what its end says, and if it has no end. */
export async function* readFrames(stream: ReadableStream<Uint8Array>): AsyncGenerator {
  const reader = stream.getReader()
  let bytes = new Uint8Array()
  try {
    for (;;) {
      const size = sizeOf(bytes)
      if (size !== null && bytes.length >= headBytes + size) {
        const message = JSON.parse(
          new TextDecoder().decode(bytes.subarray(headBytes, headBytes + size)),
        ) as unknown
        if (((bytes[0] ?? 0) & endOfStream) !== 0) return mustBeGood(message)
        bytes = bytes.slice(headBytes + size)
        yield message
        continue
      }
      const { done, value } = await reader.read()
      if (done) throw unavailable('A stream of E2B broke off')
      bytes = joined(bytes, value)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

function sizeOf(bytes: Uint8Array): number | null {
  if (bytes.length < headBytes) return null
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1)
  if (size > maxFrameBytes) throw unavailable('A message of E2B is too large')
  return size
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}

function mustBeGood(end: unknown): void {
  const { error } = end as { error?: { code?: string; message?: string } }
  if (error === undefined) return
  throw unavailable(`The sandbox at E2B says ${error.code ?? 'unknown'}: ${error.message ?? ''}`)
}
