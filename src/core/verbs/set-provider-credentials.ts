import { AppError } from '../../contract/error.ts'
import type { CredentialsOf, Provider, RemoteProvider } from '../../contract/provider.ts'
import type { Clock, Crypto, Db, WebhookSender } from '../ports.ts'
import {
  countCredentialSandboxes,
  type CredentialsKey,
  saveCredentials,
} from '../registry/provider-credentials.ts'
import type { Providers } from '../registry/providers.ts'
import type { Caller } from '../session/record/caller.ts'
import { listProviders, type ListProvidersPorts } from './list-providers.ts'

interface SetCredentialsPorts extends ListProvidersPorts {
  db(): Db
  crypto: Pick<Crypto, 'seal'>
  now: Clock
  /** The control plane calls the addresses in credentials on a caller's word, as it does those of webhooks. */
  webhooks: Pick<WebhookSender, 'refusal'>
  providers: Pick<Providers, 'ofDeployment' | 'forget'>
}

export async function setProviderCredentials<P extends RemoteProvider>(
  ports: SetCredentialsPorts,
  { organisationId, keyId }: Pick<Caller, 'organisationId' | 'keyId'>,
  provider: P,
  { fields, whileLive }: { fields: CredentialsOf[P]; whileLive: boolean },
): Promise<Provider> {
  mustBeReachable(ports, fields)
  const key = { organisationId, provider }
  if (!whileLive) await mustBeUnusedCredentials(ports.db(), key)
  await saveCredentials(ports.db(), ports.crypto, ports.now(), key, { fields, keyId })
  ports.providers.forget(provider, organisationId)
  const found = (await listProviders(ports, organisationId)).find(({ name }) => name === provider)
  if (!found) throw new Error(`The provider "${provider}" is not offered`)
  return found
}

/** In another account the living could be neither stopped nor counted. */
export async function mustBeUnusedCredentials(db: Db, key: CredentialsKey): Promise<void> {
  const live = await countCredentialSandboxes(db, key)
  if (live === 0) return
  throw new AppError(
    'wrong_state',
    `Cannot change the credentials of "${key.provider}": ${live} of its sandboxes live. Close their sessions first, or, if the account stays the same, add ?whileLive=true`,
  )
}

const addressFields = ['apiUrl', 'sandboxUrl', 'url'] as const

function mustBeReachable(
  { webhooks }: Pick<SetCredentialsPorts, 'webhooks'>,
  fields: Partial<Record<(typeof addressFields)[number], string | undefined>>,
): void {
  for (const path of addressFields) {
    const url = fields[path]
    const message = url === undefined ? null : webhooks.refusal(url)
    if (message !== null)
      throw new AppError('unprocessable', `Cannot use this address: ${message}`, [
        { path, message },
      ])
  }
}
