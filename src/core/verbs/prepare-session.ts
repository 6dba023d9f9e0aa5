import { AppError } from '../../contract/error.ts'
import type { SessionCreate } from '../../contract/session.ts'
import {
  type ConfigurationKey,
  loadConfiguration,
  loadSealedConfigurationToken,
} from '../registry/configurations/configurations.ts'
import { type Limited, mustMayUsePlace } from '../registry/place.ts'
import { strict } from '../policy/builtin-policy.ts'
import { loadSealedSecrets } from '../registry/configurations/secrets.ts'
import { loadPolicyFor } from '../registry/policies/policies.ts'
import type { Crypto, Db } from '../ports.ts'
import type { CreateSession, SessionConfiguration } from '../session/record/record.ts'
import type { SealedValue } from '../session/record/secrets.ts'
import type { AttemptTerms } from '../session/record/attempt-terms.ts'
import type { Pin } from '../session/pins/pins.ts'
import { abilitiesToPin } from './pin-abilities.ts'
import { memoryScopesToPin } from './pin-memories.ts'
import { pinRegistries } from './pin-registries.ts'

export interface PreparedSession extends Required<
  Pick<
    CreateSession,
    'configuration' | 'secrets' | 'policy' | 'pins' | 'equipment' | 'memoryScopes' | 'abilityNames'
  >
> {
  /** How many sandboxes of its configuration are kept booted. */
  warmPoolSize: number
}

/** Whoever asks: personal rows of the registries are its member's. */
type Creator = Limited & { organisationId: string; memberId: string }

interface PreparePorts {
  db: Db
  crypto: Pick<Crypto, 'sha256'>
}

/** What a session takes from libSQL, read once: from then on it needs it for nothing. */
export async function prepareSession(
  ports: PreparePorts,
  creator: Creator,
  input: SessionCreate,
  attempt: AttemptTerms | null = null,
): Promise<PreparedSession> {
  const own = underTerms(await prepareOwn(ports.db, creator, input), attempt)
  const project = own.configuration?.project ?? input.project
  const pins = await pinRegistries({ ...ports, ...creator, project, input })
  return { ...own, pins, ...equipmentFor(input, pins) }
}

/** An attempt of an eval run has the secrets that its target names and no other, and a policy that is always the same. */
function underTerms<Own extends Pick<PreparedSession, 'secrets' | 'policy'>>(
  own: Own,
  attempt: AttemptTerms | null,
): Own {
  if (attempt === null) return own
  const secrets = own.secrets.filter(({ key }) => attempt.secrets.includes(key))
  return { ...own, secrets, policy: attempt.policy ?? strict }
}

/** What the session names, itself or by its agent. */
function equipmentFor(
  input: SessionCreate,
  pins: readonly Pin[],
): Pick<PreparedSession, 'equipment' | 'memoryScopes' | 'abilityNames'> {
  const memoryScopes = memoryScopesToPin(input, pins)
  const abilities = abilitiesToPin(input, pins)
  const hasSkills = pins.some(({ kind }) => kind === 'skill')
  return {
    memoryScopes,
    abilityNames: abilities === true ? null : (abilities ?? []),
    equipment: [
      ...(memoryScopes.length > 0 ? (['memory'] as const) : []),
      ...(hasSkills ? (['skills'] as const) : []),
      ...(abilities === null ? [] : (['abilities'] as const)),
    ],
  }
}

async function prepareOwn(
  db: Db,
  caller: Limited & { organisationId: string },
  input: SessionCreate,
): Promise<Omit<PreparedSession, 'pins' | 'equipment' | 'memoryScopes' | 'abilityNames'>> {
  const { organisationId } = caller
  const { configurationId } = input
  if (configurationId === undefined) {
    mustMayUsePlace(caller, input.project)
    const policy = await policyOf(db, organisationId, input.project)
    return { configuration: null, secrets: [], policy, warmPoolSize: 0 }
  }
  const key = { ...caller, configurationId }
  const { configuration, warmPoolSize } = await loadForSession(db, key)
  if (input.project !== 'default' && input.project !== configuration.project) {
    throw new AppError(
      'unprocessable',
      `The configuration belongs to project "${configuration.project}"`,
      [{ path: 'project', message: `Must be "${configuration.project}", or be left out` }],
    )
  }
  const [secrets, policy] = await Promise.all([
    loadSecrets(db, key),
    policyOf(db, organisationId, configuration.project),
  ])
  return { configuration, secrets, policy, warmPoolSize }
}

/** Null: the built-in one. */
const policyOf = async (db: Db, organisationId: string, project: string) =>
  (await loadPolicyFor(db, organisationId, project))?.policy ?? null

async function loadForSession(
  db: Db,
  key: ConfigurationKey,
): Promise<{ configuration: SessionConfiguration; warmPoolSize: number }> {
  const found = await loadConfiguration(db, key)
  const configuration = {
    id: found.id,
    project: found.project,
    name: found.name,
    repository: found.repository && {
      url: found.repository.url,
      ref: found.repository.ref,
      token: await loadSealedConfigurationToken(db, key),
    },
    defaultModel: found.defaultModel,
    trustProjectConfig: found.trustProjectConfig,
    snapshotId: found.baseSnapshotId,
    envFiles: found.envFiles,
  }
  return { configuration, warmPoolSize: found.warmPool.size }
}

async function loadSecrets(
  db: Db,
  { organisationId, configurationId }: ConfigurationKey,
): Promise<SealedValue[]> {
  const secrets = await loadSealedSecrets(db, organisationId, configurationId)
  return secrets.map(({ name: key, sealed, inject }) => ({
    ...{ key, sealed, kind: 'secret' as const },
    ...(inject !== null && { inject }),
  }))
}
