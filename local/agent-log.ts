import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'

const maxLineLength = 64 * 1024
const keptLines = 12

export interface AgentLog {
  /** Reads a stream line by line into the file. */
  follow(stream: Readable, onLine?: (line: string) => void): void
  /** Resolves when everything that was followed has been read to its end. */
  read(): Promise<void>
  /** The last lines, for a person who asks why it ended. */
  tail(): string
  close(): void
}

/** A log file of bounded size (one older file is kept), in which the given values and anything like a JWT are blanked. */
export function openAgentLog(
  path: string,
  secrets: string[],
  maxBytes = 2 * 1024 * 1024,
): AgentLog {
  let fd: number | undefined = openSync(path, 'a', 0o600)
  let size = fstatSync(fd).size
  const last: string[] = []
  const read: Promise<void>[] = []
  const write = (line: string) => {
    const clean = redact(line, secrets)
    last.push(clean.slice(0, 500))
    if (last.length > keptLines) last.shift()
    if (fd === undefined) return
    if (size > maxBytes) {
      closeSync(fd)
      renameSync(path, `${path}.1`)
      fd = openSync(path, 'a', 0o600)
      size = 0
    }
    size += writeSync(fd, `${clean}\n`)
  }
  return {
    follow: (stream, onLine) => {
      let rest = ''
      stream.setEncoding('utf8')
      stream.on('data', (chunk: string) => {
        const lines = (rest + chunk).split('\n')
        rest = (lines.pop() ?? '').slice(0, maxLineLength)
        for (const line of lines) {
          write(line)
          onLine?.(line)
        }
      })
      stream.on('end', () => void (rest !== '' && write(rest)))
      stream.on('error', () => undefined)
      read.push(new Promise((resolve) => stream.once('close', resolve)))
    },
    read: async () => void (await Promise.all(read)),
    tail: () => last.join('\n'),
    close: () => {
      if (fd !== undefined) closeSync(fd)
      fd = undefined
    },
  }
}

export function redact(text: string, secrets: string[]): string {
  let clean = text
  for (const secret of secrets) if (secret !== '') clean = clean.replaceAll(secret, '[secret]')
  return clean.replaceAll(/eyJ[\w-]{8,}\.[\w-]+\.[\w-]+/g, '[token]')
}
