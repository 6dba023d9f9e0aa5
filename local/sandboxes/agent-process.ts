// What the host needs to know of an agent's process: Node's flags for it, the manifest that is fetched while it starts,
// its log of bounded size without secrets, when it is ready and how it ended. Only sandbox.ts uses it.

import type { ChildProcess } from 'node:child_process'
import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { Manifest } from '../../src/contract/manifest.ts'
import type { SandboxSpec } from '../../src/core/ports.ts'

/** The agent needs none of Node's background threads. It saves more by itself: see sandbox-agent/lean.ts. */
export const leanNode = ['--max-semi-space-size=1', '--single-threaded-gc', '--v8-pool-size=0']

const fetchMs = 2000

/** Asked while the agent's process starts, so that OpenCode does not wait for it. undefined: the agent asks itself. */
export async function fetchAgentProcessManifest(
  { gatewayUrl, sessionId, token }: SandboxSpec,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  try {
    const response = await fetch(`${gatewayUrl}/sandbox/${sessionId}/manifest`, {
      headers: { authorization: `Bearer ${token}` },
      redirect: 'error',
      signal: AbortSignal.any([signal, AbortSignal.timeout(fetchMs)]),
    })
    return response.ok ? Manifest.parse(await response.json()) : undefined
  } catch {
    return undefined
  }
}

export function isAgentProcessReady(line: string): boolean {
  if (!line.includes('"ready"')) return false
  try {
    const { msg, message } = JSON.parse(line) as { msg?: unknown; message?: unknown }
    return (msg ?? message) === 'ready'
  } catch {
    return false
  }
}

export const exitOf = (child: ChildProcess) =>
  new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exit code ${code}` : `signal ${signal}`),
    )
  })

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

/**
 * A log file of bounded size (one older file is kept), in which the given values and anything like a JWT are blanked.
 */
export function openAgentProcessLog(
  path: string,
  secrets: string[],
  maxBytes = 2 * 1024 * 1024,
): AgentLog {
  let fd: number | undefined = openSync(path, 'a', 0o600)
  let size = fstatSync(fd).size
  const last: string[] = []
  const read: Promise<void>[] = []
  const write = (line: string) => {
    const clean = redactAgentProcessLog(line, secrets)
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

export function redactAgentProcessLog(text: string, secrets: string[]): string {
  let clean = text
  for (const secret of secrets) if (secret !== '') clean = clean.replaceAll(secret, '[secret]')
  return clean.replaceAll(/eyJ[\w-]{8,}\.[\w-]+\.[\w-]+/g, '[token]')
}
