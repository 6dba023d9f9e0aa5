import { createBlobs } from './adapters/blobs.ts'
import { createLibsql } from './adapters/libsql.ts'
import { createDirectory } from './adapters/sandboxes/directory.ts'
import { createTokens, type TokenAuthority } from './adapters/tokens.ts'
import { createWebCrypto, createCryptoSessionIds, type SessionIds } from './adapters/web-crypto.ts'
import { createWebhookSender } from './adapters/webhook-sender.ts'
import type { CrashPoint } from './core/actor/crash-points.ts'
import {
  type Blobs,
  type Crypto,
  type Db,
  type Log,
  type LogLevel,
  logLevels,
  type SandboxProvider,
  type WebhookSender,
} from './core/ports.ts'
import type { WarmSource } from './core/organisation/record/ports.ts'
import type { Providers } from './core/registry/providers.ts'
import type { SessionConfig } from './core/session/record/ports.ts'
import { createWarmSource } from './core/verbs/warm-source.ts'
import { type Config, configDefaultModel } from './config.ts'
import type { Firewall } from './contract/limits.ts'
import { modelRows } from './contract/models.ts'
import type { ProviderName } from './contract/session.ts'

/** The adapters of one deployment, the same for every host. */
export interface Parts {
  config: Config
  sessionConfig: SessionConfig
  firewall: Firewall
  crypto: Crypto
  ids: SessionIds
  tokens: TokenAuthority
  webhooks: WebhookSender
  db(): Db
  blobs(): Blobs
  providers: Providers
  /** As `providers.find`. */
  provider(name: ProviderName, organisationId: string): Promise<SandboxProvider | null>
  warm: WarmSource
  log: Log
  crash: CrashPoint | undefined
}

export function createParts(config: Config): Parts {
  const now = () => Date.now()
  const { sandboxHost, crashUrl } = config
  const db = () => createLibsql(config.libsql)
  const crypto = createWebCrypto(config.sealKeys, config.exportKeys)
  const providers = createDirectory({
    ...{ e2b: config.e2b, modal: config.modal, label: config.deploymentLabel, db, crypto, now },
    local: sandboxHost && {
      hostUrl: sandboxHost.url,
      secret: sandboxHost.secret,
      root: sandboxHost.root,
    },
  })
  const ids = createCryptoSessionIds(config.idSecret)
  const sessionConfig = {
    publicUrl: config.publicUrl,
    defaultSandbox: config.defaultSandbox,
    defaultModel: configDefaultModel(config),
    models: modelRows(config.extraModels),
    enclosure: config.enclosure,
    unwalledApprovals: config.unwalledApprovals,
    privateHosts: config.privateHosts,
    evidence: { mode: config.proofMode },
    retentionMs: config.retentionDays * 24 * 60 * 60_000,
    modelLimits: config.firewall,
  }
  return {
    config,
    sessionConfig,
    firewall: config.firewall,
    crypto,
    ids,
    tokens: createTokens(config.tokenKeys, now),
    webhooks: createWebhookSender(config),
    db,
    blobs: () => createBlobs(db(), now),
    providers,
    provider: (name, organisationId) => providers.find(name, organisationId),
    warm: createWarmSource({ db, crypto, ids, config: sessionConfig }),
    log: createPartsLog(config.logLevel),
    crash: crashUrl ? createCrashPoint(crashUrl) : undefined,
  }
}

/**
 * One JSON line per fact, for people and for log stores. What is below the level costs next to nothing. Never throws: under
 * Deno the console does, on a full disk.
 */
export function createPartsLog(least: LogLevel): Log {
  const lowest = logLevels.indexOf(least)
  return (level, message, fields) => {
    if (logLevels.indexOf(level) < lowest) return
    const line = JSON.stringify({ at: new Date().toISOString(), level, message, ...fields })
    try {
      if (level === 'error') console.error(line)
      else if (level === 'warn') console.warn(line)
      else console.log(line)
    } catch {
      // There is nowhere left to say it.
    }
  }
}

/** A crash test's server decides here whether this process lives on. */
function createCrashPoint(url: string): CrashPoint {
  return async (name) => {
    const answer = await fetch(`${url}/${name}`, { method: 'POST' })
    await answer.arrayBuffer()
  }
}
