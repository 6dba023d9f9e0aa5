import {
  closeSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'

/**
 * An append-only file of JSON lines. A line counts once its line feed is there, so a process killed in the middle of a
 * write leaves a tail that the next one cuts off.
 */
export class Journal<T> {
  readonly #path: string
  #fd: number
  bytes: number

  private constructor(path: string, fd: number, bytes: number) {
    this.#path = path
    this.#fd = fd
    this.bytes = bytes
  }

  static open<T>(path: string): { journal: Journal<T>; lines: T[] } {
    const fd = openSync(path, 'a+', 0o600)
    const { lines, bytes } = parseLines(readFileSync(fd))
    ftruncateSync(fd, bytes)
    return { journal: new Journal<T>(path, fd, bytes), lines: lines as T[] }
  }

  append(value: T): void {
    this.bytes += writeAll(this.#fd, Buffer.from(`${JSON.stringify(value)}\n`))
  }

  /** All or nothing: the old content stays until the new one is complete. */
  replace(values: T[]): void {
    const temporary = `${this.#path}.new`
    const fd = openSync(temporary, 'w', 0o600)
    const bytes = writeAll(
      fd,
      Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join('')),
    )
    fsyncSync(fd)
    closeSync(fd)
    renameSync(temporary, this.#path)
    closeSync(this.#fd)
    this.#fd = openSync(this.#path, 'a', 0o600)
    this.bytes = bytes
  }

  close(): void {
    closeSync(this.#fd)
  }
}

function writeAll(fd: number, bytes: Buffer): number {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done)
  return bytes.length
}

function parseLines(content: Buffer): { lines: unknown[]; bytes: number } {
  const lines: unknown[] = []
  let start = 0
  while (start < content.length) {
    const end = content.indexOf(10, start)
    if (end === -1) break
    const value = parseLine(content.toString('utf8', start, end))
    if (value === undefined) break
    lines.push(value)
    start = end + 1
  }
  return { lines, bytes: start }
}

function parseLine(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
