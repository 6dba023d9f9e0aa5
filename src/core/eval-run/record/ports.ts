import type { RegistryRevision } from '../../../contract/promotion.ts'
import type { SessionCreate } from '../../../contract/session.ts'
import type { AttemptTerms } from '../../session/record/attempt-terms.ts'
import type { AskModel } from './ask-model.ts'
import type { Clock, Crypto, Ledger, Log, Sql } from '../../ports.ts'
import type { SessionApi } from '../../session/session.ts'
import type { Caller } from '../../session/record/caller.ts'

/** In whose name the run's sessions are made: whoever has made the run. */
export type RunCaller = Pick<
  Caller,
  'organisationId' | 'keyId' | 'memberId' | 'owner' | 'scopes' | 'limits'
>

/** The session of an attempt, with what it took from registries and elsewhere when it began. */
export interface BegunAttempt {
  id: string
  tried: RegistryRevision[]
  began: AttemptBeginning
}

/** What its results depend on and no revision of a registry says. */
export interface AttemptBeginning {
  model: string
  /** Hashes of what it was given to remember. */
  memories: string[]
}

/** What the shell around a run does for it. */
export interface EvalRunHost {
  arm(at: number | null): void
  sleep(ms: number): Promise<void>
  /** Deletes the whole database and the alarm. */
  erase(): Promise<void>
}

/** What an attempt asks of its session. */
export type AttemptSession = Pick<
  SessionApi,
  'self' | 'turns' | 'log' | 'operations' | 'changes' | 'evidence' | 'evals' | 'budget'
>

export interface EvalRunPorts {
  sql: Sql
  host: EvalRunHost
  now: Clock
  crypto: Pick<Crypto, 'random'>
  ledger(id: string): Ledger
  session(id: string): AttemptSession
  /** Makes the session of an attempt. The same key makes the same one. */
  beginSession(
    caller: RunCaller,
    input: SessionCreate,
    terms: AttemptTerms,
    key: string,
  ): Promise<BegunAttempt>
  askModel: AskModel
  config: { publicUrl: string; retentionMs: number }
  log: Log
}
