import type { SessionCreate } from '../../contract/session.ts'
import type { Crypto, Db } from '../ports.ts'
import type { Limited } from '../registry/place.ts'
import type { Pin } from '../session/pins/pins.ts'

/** What a session that is about to be created asks of the registries. */
export interface PinContext extends Limited {
  db: Db
  crypto: Pick<Crypto, 'sha256'>
  organisationId: string
  /** Whose personal rows count. */
  memberId: string
  project: string
  input: SessionCreate
}

/** Finds what the session begins with, or refuses. It is shown what was pinned before it: skills follow from the agent. */
export type Pinner = (context: PinContext, before: readonly Pin[]) => Promise<Pin[]>
