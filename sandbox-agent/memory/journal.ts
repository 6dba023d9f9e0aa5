// An append-only file of JSON lines. A line counts once its line feed is there, so a process that is killed during a
// write leaves a tail, and the next process cuts it off. If the disk is full, the part of the line that was written is
// taken back at once. A line that cannot be read is skipped, and the lines after it count. The spool and the results
// are kept in one each.

import { type Disk, nodeDisk, writeToDisk } from './disk.ts'

export class Journal<T> {
  readonly #disk: Disk
  readonly #path: string
  #fd: number
  /** Half a line is at the end, which could not be taken back. */
  #isTorn = false
  bytes: number

  private constructor(disk: Disk, path: string, fd: number, bytes: number) {
    this.#disk = disk
    this.#path = path
    this.#fd = fd
    this.bytes = bytes
  }

  static open<T>(path: string, disk: Disk = nodeDisk): { journal: Journal<T>; lines: T[] } {
    const fd = disk.openToAppend(path)
    const { lines, bytes } = parseLines(disk.read(fd))
    disk.truncate(fd, bytes)
    return { journal: new Journal<T>(disk, path, fd, bytes), lines: lines as T[] }
  }

  /** Throws if it cannot be written: then nothing of it is in the file. */
  append(value: T): void {
    const line = Buffer.from(`${this.#isTorn ? '\n' : ''}${JSON.stringify(value)}\n`)
    try {
      writeToDisk(this.#disk, this.#fd, line)
    } catch (error) {
      this.#takeBack()
      throw error
    }
    this.#isTorn = false
    this.bytes += line.length
  }

  #takeBack(): void {
    try {
      this.#disk.truncate(this.#fd, this.bytes)
    } catch {
      this.#isTorn = true
    }
  }

  /** All or nothing: the old content stays until the new one is complete. */
  replace(values: T[]): void {
    const temporary = `${this.#path}.new`
    const content = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''))
    const fd = this.#disk.openNew(temporary)
    try {
      writeToDisk(this.#disk, fd, content)
      this.#disk.sync(fd)
    } finally {
      this.#disk.close(fd)
    }
    this.#disk.rename(temporary, this.#path)
    this.#disk.close(this.#fd)
    this.#fd = this.#disk.openToAppend(this.#path)
    this.#isTorn = false
    this.bytes = content.length
  }

  close(): void {
    this.#disk.close(this.#fd)
  }
}

function parseLines(content: Buffer): { lines: unknown[]; bytes: number } {
  const lines: unknown[] = []
  let start = 0
  while (start < content.length) {
    const end = content.indexOf(10, start)
    if (end === -1) break
    const value = parseLine(content.toString('utf8', start, end))
    if (value !== undefined) lines.push(value)
    start = end + 1
  }
  return { lines, bytes: start }
}

/** Lines are objects: half of one may be a number. */
function parseLine(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch {
    return undefined
  }
}
