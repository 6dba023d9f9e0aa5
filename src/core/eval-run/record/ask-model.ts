import type { OrganisationApi } from '../../organisation/organisation.ts'

/** One question to a model, and what it has cost. */
export interface ModelQuestion {
  model: string
  system: string | null
  prompt: string
  temperature?: number | undefined
  maxOutputTokens: number
  timeoutMs: number
}

export type ModelAnswer =
  | {
      kind: 'answered'
      text: string
      tokens: { input: number; output: number; cached: number }
      costMicros: number
    }
  /** Null: nobody knows what it has cost. */
  | { kind: 'failed'; error: string; isTimeout: boolean; costMicros: number | null }

/** Asks a configured upstream of the model proxy, and no other address. Never throws. */
export type AskModel = (organisationId: string, question: ModelQuestion) => Promise<ModelAnswer>

/** Who says whether models may be asked. */
export interface ModelPermission {
  organisation: (id: string) => Pick<OrganisationApi, 'firewall'>
}
