import { z } from 'zod'

export const Mode = z.enum(['scratch', 'setup', 'automation', 'coding'])
export type Mode = z.infer<typeof Mode>
export const allModes = Mode.options

/** What a session was made for. */
export const SessionType = z.enum(['coding', 'setup'])
export type SessionType = z.infer<typeof SessionType>

/** Who made it. Only `automation` changes what the agent is told and may do. */
export const ClientType = z.enum(['api', 'cli', 'dashboard', 'automation'])
export type ClientType = z.infer<typeof ClientType>

export interface ModeInput {
  configurationId: string | null
  sessionType: SessionType
  clientType: ClientType
}

/**
 * The one place that decides the mode; prompt, files and gates all ask it, so that they cannot disagree. A missing
 * configuration comes before everything else, and setup before automation.
 */
export function deriveMode({ configurationId, sessionType, clientType }: ModeInput): Mode {
  if (!configurationId) return 'scratch'
  if (sessionType === 'setup') return 'setup'
  return clientType === 'automation' ? 'automation' : 'coding'
}
