// How bytes are shown as text: `showBytes` cuts between two characters, and `Printed` keeps the beginning and the end
// of a long output. Reading, fetching and running use them.

/** Bytes as text, cut between two characters. */
export function showBytes(bytes: Uint8Array, maxBytes: number): { text: string; cut: boolean } {
  const cut = bytes.length > maxBytes
  const kept = cut ? bytes.subarray(0, maxBytes) : bytes
  // In stream mode half a character at the end is held back instead of shown as a broken one.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(kept, { stream: cut })
  // A NUL ends a text in some stores.
  return { text: text.replaceAll('\0', '\uFFFD'), cut }
}

/** No NUL, and UTF-8 as far as it goes: the bytes may be the beginning of more. */
export function isTextToShow(bytes: Uint8Array): boolean {
  if (bytes.includes(0)) return false
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}

/** The beginning and the end of what is printed: the cause of a failure is in one of them. */
export class Printed {
  readonly #maxBytes: number
  readonly #head: Buffer[] = []
  #headBytes = 0
  #tail: Buffer[] = []
  #tailBytes = 0
  bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  add(chunk: Buffer): void {
    this.bytes += chunk.length
    const room = Math.ceil(this.#maxBytes / 2) - this.#headBytes
    const first = chunk.subarray(0, Math.max(0, room))
    if (first.length > 0) this.#head.push(first)
    this.#headBytes += first.length
    const rest = chunk.subarray(first.length)
    if (rest.length > 0) this.#addTail(rest)
  }

  text(): { text: string; cut: boolean } {
    const head = Buffer.concat(this.#head)
    const tail = Buffer.concat(this.#tail).subarray(-this.#tailRoom || Infinity)
    const left = this.bytes - head.length - tail.length
    if (left <= 0) return showBytes(Buffer.concat([head, tail]), this.#maxBytes)
    const end = showBytes(tail.subarray(tail.findIndex((byte) => (byte & 0xc0) !== 0x80)), Infinity)
    const start = showBytes(Buffer.concat([head, Buffer.of(0)]), head.length)
    return { text: `${start.text}\n[… ${left} bytes left out …]\n${end.text}`, cut: true }
  }

  get #tailRoom(): number {
    return Math.floor(this.#maxBytes / 2)
  }

  #addTail(chunk: Buffer): void {
    this.#tail.push(chunk)
    this.#tailBytes += chunk.length
    if (this.#tailBytes < 2 * this.#tailRoom + 65_536) return
    this.#tail = [Buffer.concat(this.#tail).subarray(-this.#tailRoom || Infinity)]
    this.#tailBytes = this.#tail[0]?.length ?? 0
  }
}
