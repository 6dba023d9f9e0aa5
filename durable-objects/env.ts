import type { OrganisationApi } from '../src/core/organisations/api.ts'
import type { Ledger, LedgerStatus } from '../src/core/ports.ts'
import type { SessionApi } from '../src/core/sessions/api.ts'
import type { Caller } from '../src/core/sessions/caller.ts'
import { parseConfig } from '../src/http/config.ts'
import { createParts, type Parts } from '../src/parts.ts'

/** Typed by what the objects offer, not by their classes, which need this very file. */
type Objects<T> = DurableObjectNamespace<T & Rpc.DurableObjectBranded>

export interface Env {
  SESSION: Objects<SessionApi & { checkWatcher(caller: Caller): Promise<void> }>
  ORGANISATION: Objects<OrganisationApi>
  LEDGER: Objects<Ledger & { status(): Promise<LedgerStatus> }>
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
