import { canonicalJson } from '../../contract/canonical.ts'
import { errorCodeOf } from '../../contract/error.ts'
import { SessionCreate } from '../../contract/session.ts'
import { opencodeVersion, version } from '../../contract/version.ts'
import type { WarmPlan, WarmSource } from '../organisation/record/ports.ts'
import type { Crypto, Db } from '../ports.ts'
import type { CreateSession } from '../session/record/record.ts'
import type { SessionConfig } from '../session/record/ports.ts'
import { type PreparedSession, prepareSession } from './prepare-session.ts'

interface WarmSourceOptions {
  db(): Db
  crypto: Pick<Crypto, 'sha256'>
  ids: { mint(): Promise<string> }
  config: SessionConfig
}

export function createWarmSource(options: WarmSourceOptions): WarmSource {
  const { crypto, ids, config } = options
  const { publicUrl, defaultSandbox, defaultModel, models } = config
  const deployment = { version, opencodeVersion, publicUrl, defaultSandbox, defaultModel, models }
  // The policy is not among it: a session is given the newest one when it is claimed.
  const versionOf: WarmSource['versionOf'] = ({ configuration, secrets }) =>
    crypto.sha256(canonicalJson({ deployment, configuration, secrets }))

  return {
    versionOf,
    mintSessionId: () => ids.mint(),
    async plan(organisationId, configurationId): Promise<WarmPlan | null> {
      const input = inputFor(configurationId, config)
      const stores = { db: options.db(), crypto }
      const found = await prepared(stores, { organisationId, memberId: '' }, input)
      if (!found?.configuration) return null
      const { warmPoolSize, ...own } = found
      return {
        configurationId,
        size: defaultSandbox === 'none' ? 0 : warmPoolSize,
        version: await versionOf(found),
        provider: defaultSandbox,
        project: found.configuration.project,
        create: { ...own, organisationId, keyId: 'warm-pool', input } satisfies Omit<
          CreateSession,
          'sessionId' | 'warm'
        >,
      }
    },
  }
}

/** Nobody uses it, so it is not put to sleep for that. */
const inputFor = (configurationId: string, { defaultSandbox }: SessionConfig): SessionCreate =>
  SessionCreate.parse({ configurationId, sandbox: defaultSandbox, idleTimeoutSeconds: null })

/** Null: there is no such configuration any more. */
async function prepared(
  ...given: Parameters<typeof prepareSession>
): Promise<PreparedSession | null> {
  try {
    return await prepareSession(...given)
  } catch (error) {
    if (errorCodeOf(error) === 'not_found') return null
    throw error
  }
}
