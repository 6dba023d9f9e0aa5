import { canonicalJson } from '../../contract/canonical.ts'
import { AppError, errorCodeOf } from '../../contract/error.ts'
import type { Session, SessionCreate } from '../../contract/session.ts'
import type { BegunAttempt } from '../eval-run/record/ports.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Crypto, Db } from '../ports.ts'
import { maySeePlace } from '../registry/place.ts'
import type { SessionApi } from '../session/session.ts'
import type { AttemptTerms } from '../session/record/attempt-terms.ts'
import type { Caller } from '../session/record/caller.ts'
import { claimWarmSession, type WarmPorts } from './claim-warm-session.ts'
import { mustMayCloneRepository } from './local-repository.ts'
import { pinnedRevisions } from './pinned-revisions.ts'
import { prepareSession } from './prepare-session.ts'

export interface CreateSessionPorts extends WarmPorts {
  db(): Db
  crypto: Pick<Crypto, 'sha256'>
  ids: { mint(): Promise<string> }
  session(id: string): ReturnType<WarmPorts['session']> & {
    self: Pick<SessionApi['self'], 'create'>
  }
  organisation(id: string): Pick<OrganisationApi, 'creations' | 'pools'>
  config: WarmPorts['config'] & { localRepositories: readonly string[] }
}

/** The same key leads to the same session, however often it comes. */
export async function createSession(
  ports: CreateSessionPorts,
  caller: Pick<Caller, 'organisationId' | 'keyId' | 'memberId' | 'scopes' | 'limits'>,
  input: SessionCreate,
  key: string | null,
  attempt: AttemptTerms | null = null,
): Promise<Session> {
  const { organisationId, keyId, memberId } = caller
  mustMayCloneRepository(ports.config, caller, input.repository?.url)
  const organisation = ports.organisation(organisationId)
  const fresh = await ports.ids.mint()
  const bodyHash = async () => await ports.crypto.sha256(canonicalJson(input))
  const sessionId =
    key === null ? fresh : await organisation.creations.claim(key, await bodyHash(), fresh)
  const stores = { db: ports.db(), crypto: ports.crypto }
  const { warmPoolSize, ...prepared } = await prepareSession(stores, caller, input, attempt)
  const run = input.clientType === 'automation' ? input.automationRunId : undefined
  if (run !== undefined) await organisation.creations.claimRun(run, sessionId)
  const sandbox = input.sandbox ?? ports.config.defaultSandbox
  try {
    const owned = { sessionId, organisationId, keyId, memberId }
    const create = { ...prepared, ...owned, attempt, input: { ...input, sandbox } }
    const isRepeat = sessionId !== fresh
    const mayBeWarm = warmPoolSize > 0 || isRepeat
    const warm = mayBeWarm ? await claimWarmSession(ports, create, isRepeat) : null
    const session = warm ?? (await ports.session(sessionId).self.create(create))
    // The key of a creation is the organisation's: somebody else may have used it before.
    if (!maySeePlace(caller, session)) throw new AppError('not_found', 'No such session')
    return session
  } catch (error) {
    // A refusal has created nothing. After any other failure the claim stays: the session may be there.
    const code = errorCodeOf(error)
    if (run !== undefined && (code === 'unprocessable' || code === 'invalid_request'))
      await organisation.creations.releaseRun(run, sessionId)
    throw error
  }
}

type AttemptCaller = Parameters<typeof createSession>[1]

/** Makes the sessions of eval attempts: like any other, under the terms of their target. */
export const attemptSessions =
  (ports: CreateSessionPorts) =>
  async (
    caller: AttemptCaller,
    input: SessionCreate,
    terms: AttemptTerms,
    key: string,
  ): Promise<BegunAttempt> => {
    const session = await createSession(ports, caller, input, key, terms)
    const { id, project, pins, model, reasoningEffort } = session
    const { organisationId } = caller
    const memories = pins.filter(({ kind }) => kind === 'memory')
    return {
      id,
      tried: await pinnedRevisions(ports.db(), { organisationId, project }, pins),
      began: {
        model: reasoningEffort === null ? model : `${model} (${reasoningEffort})`,
        memories: memories.map(({ sha256 }) => sha256),
      },
    }
  }
