import type { KeyLimits, Scope } from '../../../contract/key.ts'

/** Who asks: checked by the session against its own record, so that a wrong caller sees 404. */
export interface Caller {
  organisationId: string
  keyId: string
  /** Whose key it is: quorums count members, not keys. */
  memberId: string
  /** The member's name, to show. */
  owner: string
  /** Who has made the key, while it is new: votes count as this member's. */
  countsAs?: { memberId: string; owner: string } | null
  /** What its key may do. */
  scopes?: readonly Scope[]
  /** What its key may see; null or missing: the whole organisation. */
  limits?: KeyLimits | null
  /** An eval run that speaks to its own attempt. No request can say it. */
  evalRunId?: string
  /** Of the request, for the log. */
  requestId?: string
}

/** The sandbox's side: claims of a verified token. */
export interface SandboxCaller {
  organisationId: string
  generation: number
  /** Of the request, for the log. */
  requestId?: string
}

export interface Page {
  limit: number
  /** Rows after this one; null: from the start. */
  after: number | null
}

/** One page, and where the next one begins. */
export interface Listed<Item> {
  items: Item[]
  next: number | null
}
