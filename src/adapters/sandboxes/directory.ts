import { AppError } from '../../contract/error.ts'
import type {
  CredentialsSource,
  E2bCredentials,
  ModalCredentials,
  RemoteProvider,
} from '../../contract/provider.ts'
import type { ProviderName } from '../../contract/sandbox.ts'
import type { Clock, Crypto, Db, ProviderCheck, SandboxProvider } from '../../core/ports.ts'
import { loadCredentials } from '../../core/registry/provider-credentials.ts'
import { type Providers, rememberMs } from '../../core/registry/providers.ts'
import { createRedactor, type KnownSecret } from '../../core/redaction/redaction.ts'
import { createE2bSandboxes } from './e2b.ts'
import { createLocalSandboxes, type LocalSandboxOptions } from './local.ts'
import { createModalSandboxes } from './modal.ts'

export interface DirectoryOptions {
  /** The deployment's own; null: it has none. */
  local: LocalSandboxOptions | null
  e2b: E2bCredentials | null
  modal: ModalCredentials | null
  /** Of everything that this deployment makes at a vendor. */
  label: string
  /** A new one for each event. */
  db(): Db
  crypto: Pick<Crypto, 'unseal'>
  now: Clock
}

/** A provider that can be used, and what must not be said of it. */
interface Offer {
  source: CredentialsSource
  provider: SandboxProvider
  secret: KnownSecret
}
interface Remembered {
  at: number
  sealed: string | null
  offer: Offer | null
}

const maxRemembered = 1000

export function createDirectory(options: DirectoryOptions): Providers {
  const ofDeployment = deploymentOffers(options)
  /** By provider and organisation, the oldest first. */
  const own = new Map<string, Remembered>()

  async function offerOf(name: ProviderName, organisationId: string): Promise<Offer | null> {
    const unless = name === 'none' ? null : (ofDeployment[name] ?? null)
    if (!isRemote(name)) return unless
    return (await ownOffer(name, organisationId)) ?? unless
  }

  async function ownOffer(name: RemoteProvider, organisationId: string): Promise<Offer | null> {
    const key = keyOf(name, organisationId)
    const known = own.get(key)
    if (known && options.now() - known.at < rememberMs) return known.offer
    const at = options.now()
    const sealed = await load(name, organisationId)
    const isSame = () => own.get(key)?.sealed === sealed
    const opened = sealed === null || isSame() ? null : await open(name, sealed)
    // The same instance for as long as they stay the same: it knows what it is creating.
    const offer = isSame() ? (own.get(key)?.offer ?? null) : opened
    remember(key, { at, sealed, offer })
    return offer
  }

  async function load(name: RemoteProvider, organisationId: string): Promise<string | null> {
    try {
      return await loadCredentials(options.db(), { organisationId, provider: name })
    } catch {
      throw unusable(name, 'whose credentials count cannot be read at the moment')
    }
  }

  async function open(name: RemoteProvider, sealed: string): Promise<Offer> {
    const text = await options.crypto.unseal(sealed).catch(() => {
      throw unusable(name, `the organisation's credentials cannot be opened. Set them again`)
    })
    const made = { source: 'organisation', label: options.label } as const
    return name === 'e2b'
      ? e2bOffer(JSON.parse(text) as E2bCredentials, made)
      : modalOffer(JSON.parse(text) as ModalCredentials, made)
  }

  function remember(key: string, entry: Remembered): void {
    own.delete(key)
    own.set(key, entry)
    const [oldest] = own.keys()
    if (own.size > maxRemembered && oldest !== undefined) own.delete(oldest)
  }

  return {
    find: async (name, organisationId) => (await offerOf(name, organisationId))?.provider ?? null,
    async check(name, organisationId) {
      const offer = await offerOf(name, organisationId)
      if (!offer) return { source: null, checks: [] }
      return { source: offer.source, checks: await checksOf(offer) }
    },
    ofDeployment: (['local', 'e2b', 'modal'] as const).filter((name) => ofDeployment[name]),
    forget: (name, organisationId) => void own.delete(keyOf(name, organisationId)),
  }
}

function deploymentOffers({ local, e2b, modal, label }: DirectoryOptions) {
  const source = 'deployment' as const
  return {
    local: local && {
      source,
      provider: createLocalSandboxes(local),
      secret: { name: 'SANDBOX_HOST_SECRET', value: local.secret },
    },
    e2b: e2b && e2bOffer(e2b, { source, label }),
    modal: modal && modalOffer(modal, { source, label }),
  }
}

interface Made {
  source: CredentialsSource
  label: string
}

const e2bOffer = (credentials: E2bCredentials, { source, label }: Made): Offer => ({
  source,
  provider: createE2bSandboxes({ ...credentials, deploymentLabel: label }),
  secret: { name: 'E2B_API_KEY', value: credentials.apiKey },
})

const modalOffer = (credentials: ModalCredentials, { source, label }: Made): Offer => ({
  source,
  provider: createModalSandboxes({ ...credentials, deploymentLabel: label }),
  secret: { name: 'MODAL_SECRET', value: credentials.secret },
})

/** A vendor's answer may quote what it was sent. */
async function checksOf({ provider, secret }: Offer): Promise<ProviderCheck[]> {
  const checks = await provider
    .check()
    .catch((error: Error): ProviderCheck[] => [
      { name: 'provider', ok: false, message: error.message, hint: 'Ask again in a moment' },
    ])
  return createRedactor([secret]).redactJson(checks)
}

const isRemote = (name: ProviderName): name is RemoteProvider => name === 'e2b' || name === 'modal'

const keyOf = (name: ProviderName, organisationId: string) => `${name} ${organisationId}`

const unusable = (name: ProviderName, why: string) =>
  new AppError('sandbox_unavailable', `Cannot use provider "${name}": ${why}`)
