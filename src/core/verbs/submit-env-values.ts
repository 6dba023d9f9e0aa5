import type { EnvSubmit, EnvSubmitted } from '../../contract/env.ts'
import { AppError } from '../../contract/error.ts'
import type { Clock, Crypto, Db } from '../ports.ts'
import type { KnownSecret } from '../redaction/redaction.ts'
import { addSecret, type SecretOwner, setSecret } from '../registry/configurations/secrets.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SealedValue } from '../session/record/secrets.ts'

interface SubmitEnvPorts {
  db(): Db
  crypto: Crypto
  now: Clock
  session(id: string): {
    self: Pick<SessionApi['self'], 'view'>
    env: Pick<SessionApi['env'], 'keys' | 'submit'>
  }
}

/** Values for the env file of a session; those that are wanted so are kept as secrets of its configuration, too. */
export async function submitEnvValues(
  ports: SubmitEnvPorts,
  caller: Caller,
  sessionId: string,
  input: EnvSubmit,
): Promise<EnvSubmitted> {
  const session = ports.session(sessionId)
  const { configurationId, status } = await session.self.view(caller)
  if (status !== 'open') throw new AppError('session_closed', 'The session is closed')
  const existing = new Set(await session.env.keys(caller))
  const fresh = input.values.filter(({ key }) => input.replace || !existing.has(key))
  const owner = { organisationId: caller.organisationId, configurationId }
  // First, since a repeat after a failure finds what the session has and leaves it.
  const kept = await persist(ports, owner, { ...input, values: fresh })
  const sandbox = await session.env.submit(caller, await seal(ports, fresh), input.replace)
  const results = input.values.map(({ key }) => ({
    key,
    persisted: kept.get(key)?.persisted ?? false,
    alreadyExisted: existing.has(key) || (kept.get(key)?.existed ?? false),
  }))
  return { submitted: true, results, sandbox }
}

interface Kept {
  persisted: boolean
  existed: boolean
}

/** Plain settings are never kept, and without a configuration there is no place to keep a secret. */
async function persist(
  ports: SubmitEnvPorts,
  owner: SecretOwner,
  { values, saveToConfiguration, replace }: EnvSubmit,
): Promise<Map<string, Kept>> {
  const kept = new Map<string, Kept>()
  for (const { key, value, type, persist: wanted = saveToConfiguration } of values) {
    if (!wanted || type !== 'secret' || owner.configurationId === null) continue
    kept.set(key, await keep(ports, owner, { name: key, value }, replace))
  }
  return kept
}

async function keep(
  ports: SubmitEnvPorts,
  owner: SecretOwner,
  secret: KnownSecret,
  replace: boolean,
): Promise<Kept> {
  const { crypto, now } = ports
  if (replace) {
    const { existed } = await setSecret(ports.db(), crypto, now(), owner, secret)
    return { persisted: true, existed }
  }
  const persisted = await addSecret(ports.db(), crypto, now(), owner, secret)
  return { persisted, existed: !persisted }
}

function seal({ crypto }: SubmitEnvPorts, values: EnvSubmit['values']): Promise<SealedValue[]> {
  return Promise.all(
    values.map(async ({ key, value, type }) => ({
      key,
      kind: type,
      sealed: await crypto.seal(value),
    })),
  )
}
