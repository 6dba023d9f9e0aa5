import { createBlobs } from './adapters/blobs.ts'
import { createDb } from './adapters/libsql.ts'
import { createLocalSandboxes } from './adapters/sandboxes/local.ts'
import { createTokens, type TokenAuthority } from './adapters/tokens.ts'
import { createCrypto, createSessionIds, type SessionIds } from './adapters/web-crypto.ts'
import type { CrashPoint } from './core/crash-points.ts'
import type { Blobs, Crypto, Db, Log, SandboxProvider } from './core/ports.ts'
import type { SessionConfig } from './core/sessions/ports.ts'
import type { Config } from './http/config.ts'
import { defaultModelId, modelRows, scriptedModelId } from './contract/models.ts'
import type { ProviderName } from './contract/session.ts'

/** The adapters of one deployment, the same for every host. */
export interface Parts {
  config: Config
  sessionConfig: SessionConfig
  crypto: Crypto
  ids: SessionIds
  tokens: TokenAuthority
  db(): Db
  blobs(): Blobs
  provider(name: ProviderName): SandboxProvider | null
  log: Log
  crash: CrashPoint | undefined
}

export function createParts(config: Config): Parts {
  const now = () => Date.now()
  const { sandboxHost, crashUrl } = config
  const local =
    sandboxHost &&
    createLocalSandboxes({
      hostUrl: sandboxHost.url,
      secret: sandboxHost.secret,
      root: sandboxHost.root,
    })
  const db = () => createDb(config.libsql)
  return {
    config,
    sessionConfig: {
      publicUrl: config.publicUrl,
      defaultSandbox: config.defaultSandbox,
      defaultModel: defaultModel(config),
      models: modelRows(config.extraModels),
      retentionMs: config.retentionDays * 24 * 60 * 60_000,
    },
    crypto: createCrypto(config.sealKeys),
    ids: createSessionIds(config.idSecret),
    tokens: createTokens(config.tokenKeys, now),
    db,
    blobs: () => createBlobs(db(), now),
    provider: (name) => (name === 'local' ? local : null),
    log: logLine,
    crash: crashUrl ? createCrashPoint(crashUrl) : undefined,
  }
}

function defaultModel({ models, extraModels }: Config): string {
  return extraModels[0] ?? (models.anthropic ? defaultModelId : scriptedModelId)
}

/** One JSON line per fact, for people and for log stores. */
const logLine: Log = (level, message, fields) => {
  const line = JSON.stringify({ at: new Date().toISOString(), level, message, ...fields })
  if (level === 'error') console.error(line)
  else if (level === 'warn') console.warn(line)
  else console.log(line)
}

/** A crash test's server decides here whether this process lives on. */
function createCrashPoint(url: string): CrashPoint {
  return async (name) => {
    const answer = await fetch(`${url}/${name}`, { method: 'POST' })
    await answer.arrayBuffer()
  }
}
