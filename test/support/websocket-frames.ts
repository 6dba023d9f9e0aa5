import { randomBytes } from 'node:crypto'

export interface Frame {
  opcode: number
  payload: Buffer
}
export const opcodes = { text: 1, close: 8 } as const

/** Takes the frames of one direction out of its bytes. Fragments do not occur: our messages are small. */
export class FrameReader {
  #rest = Buffer.alloc(0)

  read(chunk: Buffer): Frame[] {
    this.#rest = Buffer.concat([this.#rest, chunk])
    const frames: Frame[] = []
    for (let frame = this.#next(); frame; frame = this.#next()) frames.push(frame)
    return frames
  }

  #next(): Frame | null {
    const bytes = this.#rest
    if (bytes.length < 2) return null
    const short = bytes.readUInt8(1) & 0x7f
    const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0
    const isMasked = bytes.readUInt8(1) >= 0x80
    const start = 2 + lengthBytes + (isMasked ? 4 : 0)
    if (bytes.length < start) return null
    const length = lengthBytes === 0 ? short : readLength(bytes, lengthBytes)
    if (bytes.length < start + length) return null
    this.#rest = bytes.subarray(start + length)
    const payload = Buffer.from(bytes.subarray(start, start + length))
    if (isMasked) mask(payload, bytes.subarray(start - 4, start))
    return { opcode: bytes.readUInt8(0) & 0x0f, payload }
  }
}

/** Clients mask what they send, servers do not. */
export function writeFrame({ opcode, payload }: Frame, masked: boolean): Buffer {
  const { length } = payload
  const size = length < 126 ? Buffer.alloc(1) : Buffer.alloc(length < 65_536 ? 3 : 9)
  if (length < 126) size.writeUInt8(length)
  else if (length < 65_536) size.writeUInt16BE(length, size.writeUInt8(126))
  else size.writeBigUInt64BE(BigInt(length), size.writeUInt8(127))
  const head = Buffer.concat([Buffer.from([0x80 | opcode]), size])
  if (!masked) return Buffer.concat([head, payload])
  head.writeUInt8(head.readUInt8(1) | 0x80, 1)
  const key = randomBytes(4)
  const body = Buffer.from(payload)
  mask(body, key)
  return Buffer.concat([head, key, body])
}

const readLength = (bytes: Buffer, size: number) =>
  size === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))

function mask(payload: Buffer, key: Buffer): void {
  for (let at = 0; at < payload.length; at++) payload[at] = (payload[at] ?? 0) ^ (key[at % 4] ?? 0)
}
