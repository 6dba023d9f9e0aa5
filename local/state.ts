import { execFileSync } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { startTime } from './processes.ts'

/** Only the owner can enter. */
export function makePrivateDir(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  chmodSync(path, 0o700)
  return path
}

/** Also what has folders that even their owner may not write to. */
export function removeTree(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    execFileSync('chmod', ['-R', 'u+rwX', '--', path])
    rmSync(path, { recursive: true, force: true })
  }
}

/** Whole or not at all, readable by the owner only. */
export function writePrivateFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}.tmp`
  writeFileSync(draft, content, { mode: 0o600 })
  renameSync(draft, path)
}

/** What the file says, or what `make` gives on the first run. */
export function keepPrivateJson<T extends object>(path: string, make: () => T): T {
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as T
  const value = make()
  writePrivateFile(path, `${JSON.stringify(value, null, 2)}\n`)
  return value
}

export const randomText = (length: number, alphabet: string): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('')

export const randomSecret = (): string => randomBytes(32).toString('base64')

export interface Secrets {
  /** base64 */
  idSecret: string
  /** `kid:base64[,kid:base64]` */
  tokenKeys: string
  sealKeys: string
  hostSecret: string
  modelKey: string
}
export const loadSecrets = (stateDir: string): Secrets =>
  keepPrivateJson(join(stateDir, 'secrets.json'), () => ({
    idSecret: randomSecret(),
    tokenKeys: `k1:${randomSecret()}`,
    sealKeys: `k1:${randomSecret()}`,
    hostSecret: randomBytes(32).toString('hex'),
    modelKey: `sk-local-${randomBytes(16).toString('hex')}`,
  }))

/** Ports of this checkout: kept while they are free, so that addresses in scripts and tabs stay good. */
export async function choosePorts<N extends string>(
  stateDir: string,
  names: readonly N[],
): Promise<Record<N, number>> {
  const path = join(stateDir, 'ports.json')
  const known = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>)
    : {}
  const ports = { ...known } as Record<N, number>
  for (const name of names) ports[name] = await freePort(known[name])
  writePrivateFile(path, `${JSON.stringify(ports)}\n`)
  return ports
}

export async function freePort(wanted = 0): Promise<number> {
  const server = createServer()
  const port = await new Promise<number>((resolve) => {
    server.once('error', () => resolve(0))
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : 0)
    })
  })
  await new Promise((resolve) => server.close(resolve))
  return port === 0 ? freePort() : port
}

/** Whole, and only if there is none: throws EEXIST otherwise. */
export function linkNew(path: string, content: string): void {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  writeFileSync(draft, content, { mode: 0o600 })
  try {
    linkSync(draft, path)
  } finally {
    rmSync(draft, { force: true })
  }
}

export interface Lock {
  pid: number
  startedAt: string
  url: string
  /** Finds every process of the stack. */
  mark: string
}

/** One stack per state folder. Returns the way to give it back. */
export function takeLock(stateDir: string, url: string, mark: string): () => void {
  const path = join(stateDir, 'lock')
  const mine: Lock = { pid: process.pid, startedAt: startTime(process.pid) ?? '', url, mark }
  for (let tries = 0; ; tries += 1) {
    try {
      linkNew(path, JSON.stringify(mine))
      return () => rmSync(path, { force: true })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || tries > 3) throw error
      assertNotRunning(stateDir)
      rmSync(path, { force: true })
    }
  }
}

export function assertNotRunning(stateDir: string): void {
  const holder = lockHolder(stateDir)
  if (holder !== undefined) throw new AlreadyRunning(holder, stateDir)
}

export class AlreadyRunning extends Error {
  readonly holder: Lock
  constructor(holder: Lock, stateDir: string) {
    super(
      `Gantry is already running for "${stateDir}" as process ${holder.pid}: ${holder.url}. ` +
        `Use that one, or stop it first with "kill ${holder.pid}"`,
    )
    this.name = 'AlreadyRunning'
    this.holder = holder
  }
}

/** Who holds the lock, if that process is still the one that took it. */
export function lockHolder(stateDir: string): Lock | undefined {
  try {
    const lock = JSON.parse(readFileSync(join(stateDir, 'lock'), 'utf8')) as Lock
    return startTime(lock.pid) === lock.startedAt ? lock : undefined
  } catch {
    return undefined
  }
}
