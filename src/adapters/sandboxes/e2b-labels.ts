import type { SandboxInfo } from '../../core/ports.ts'
import type { E2bListed } from './e2b-api.ts'

interface LabelOf {
  organisationId: string
  sessionId: string
  generation: number
}

/** session: a sandbox of a session. scrub: a copy of one that becomes a snapshot. */
type Role = 'session' | 'scrub'

const metadataOf = (label: string, of: LabelOf, role: Role) => ({
  gantry: label,
  organisation: of.organisationId,
  session: of.sessionId,
  generation: String(of.generation),
  role,
})

export const newMetadata = (label: string, of: LabelOf) => metadataOf(label, of, 'session')
export const scrubMetadata = (label: string, of: LabelOf) => metadataOf(label, of, 'scrub')

/** By which one is found. */
export const sessionMetadata = (
  label: string,
  { sessionId, generation }: Omit<LabelOf, 'organisationId'>,
  role: Role,
) => ({ gantry: label, session: sessionId, generation: String(generation), role })

export const organisationMetadata = (label: string, organisationId: string) => ({
  gantry: label,
  organisation: organisationId,
  role: 'session',
})

/** By the vendor's word alone. */
export function e2bLabelInfo({ metadata, startedAt, state }: E2bListed): SandboxInfo {
  const info = {
    sessionId: metadata?.['session'] ?? '',
    generation: Number(metadata?.['generation'] ?? 0),
    startedAt: Date.parse(startedAt),
  }
  return state === 'running'
    ? { ...info, state, reason: null }
    : { ...info, state: 'exited', reason: 'The sandbox is paused' }
}
