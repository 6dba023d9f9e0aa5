// The libSQL server of the stack: on loopback, with a key pair of its own, so that only holders of its token get in. It
// counts as ready when a write succeeds. `npm start`, `npm run libsql` and many tests start it.

import { generateKeyPairSync, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from '../binaries.ts'
import { type PartFailed, type PartSpec, startPart, untilPartReady } from '../processes/part.ts'
import { stackMark } from '../processes/processes.ts'
import { freePort } from '../state/ports.ts'
import { keepPrivateJson, makePrivateDir } from '../state/private-files.ts'
import { supervise, type Supervised } from '../processes/supervise.ts'

interface SqldOptions {
  /** Holds the data, the key pair and the log. */
  stateDir: string
  /** Default: any free one. */
  port?: number
  mark?: string
  onDeath?: (error: PartFailed) => void
}

export interface Sqld extends Supervised {
  url: string
  /** For clients: read and write. */
  token: string
}

export async function startSqld(options: SqldOptions): Promise<Sqld> {
  const stateDir = makePrivateDir(options.stateDir)
  const port = options.port ?? (await freePort())
  const url = `http://127.0.0.1:${port}`
  const keys = loadKeys(stateDir)
  const token = mintSqldToken(keys.privateKey)
  const launch = async () => {
    const part = startPart(partSpec(stateDir, port, keys.publicKey, options.mark))
    const advice =
      'If its data is damaged, move the folder "libsql" beside the log away and start again'
    await untilPartReady(part, () => canWriteSqld(url, token), { deadlineMs: 60_000, advice })
    return part
  }
  const supervised = await supervise(launch, options.onDeath ?? (() => undefined))
  return { ...supervised, url, token }
}

function partSpec(
  stateDir: string,
  port: number,
  publicKey: string,
  mark: string | undefined,
): PartSpec {
  const keyFile = join(stateDir, 'libsql-public-key.pem')
  writeFileSync(keyFile, publicKey, { mode: 0o600 })
  return {
    name: 'libSQL server',
    command: binary('sqld'),
    args: [
      '--no-welcome',
      '--db-path',
      join(stateDir, 'libsql'),
      '--http-listen-addr',
      `127.0.0.1:${port}`,
      '--auth-jwt-key-file',
      keyFile,
      // With four, concurrent writers lock each other out for good on a busy machine (D461).
      '--max-concurrent-connections',
      '2',
    ],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: stateDir,
      ...(mark === undefined ? {} : { [stackMark]: mark }),
    },
    logFile: join(stateDir, 'libsql.log'),
  }
}

/** A locked server still answers reads and /health: only a write tells. */
export async function canWriteSqld(url: string, token: string): Promise<boolean> {
  const statements = [
    'CREATE TABLE IF NOT EXISTS _health (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)',
    'INSERT OR REPLACE INTO _health (id, at) VALUES (1, unixepoch())',
  ]
  const response = await fetch(`${url}/v2/pipeline`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      requests: [
        ...statements.map((sql) => ({ type: 'execute', stmt: { sql } })),
        { type: 'close' },
      ],
    }),
    signal: AbortSignal.timeout(2000),
  })
  if (!response.ok) return false
  const { results } = (await response.json()) as { results: { type: string }[] }
  return results.every(({ type }) => type === 'ok')
}

interface Keys {
  publicKey: string
  privateKey: string
}
export const loadKeys = (stateDir: string): Keys =>
  keepPrivateJson(join(stateDir, 'libsql-keys.json'), () =>
    generateKeyPairSync('ed25519', {
      publicKeyEncoding: { type: 'spki', format: 'pem' },
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    }),
  )

export function mintSqldToken(privateKey: string, access: 'rw' | 'ro' = 'rw'): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const body = `${encode({ alg: 'EdDSA', typ: 'JWT' })}.${encode({ a: access })}`
  return `${body}.${sign(null, Buffer.from(body), privateKey).toString('base64url')}`
}
