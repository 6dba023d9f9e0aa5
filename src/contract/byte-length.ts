/** Whether a text has more bytes as UTF-8 than `maxBytes`, without making the bytes. */
export function isByteLengthOver(text: string, maxBytes: number): boolean {
  if (text.length > maxBytes) return true
  return text.length * 3 > maxBytes && byteLength(text) > maxBytes
}

/** As UTF-8, without making the bytes. */
export function byteLength(text: string): number {
  let bytes = 0
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
  }
  return bytes
}
