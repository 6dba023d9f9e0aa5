import { parseConfig } from '../src/http/config.ts'
import { createParts, type Parts } from '../src/parts.ts'
import type { LedgerObject } from './ledger.ts'
import type { OrganisationObject } from './organisation.ts'
import type { SessionObject } from './session.ts'

export interface Env {
  SESSION: DurableObjectNamespace<SessionObject>
  ORGANISATION: DurableObjectNamespace<OrganisationObject>
  LEDGER: DurableObjectNamespace<LedgerObject>
}

let parts: Parts | undefined

/** Once per isolate: the environment does not change under a running one, and keys are imported once. */
export function partsOf(env: Env): Parts {
  parts ??= createParts(parseConfig(textBindings(env)))
  return parts
}

function textBindings(env: Env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
