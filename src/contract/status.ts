import { z } from 'zod'

export const DeadLetter = z.object({
  sessionId: z.string(),
  seq: z.number().int(),
  kind: z.string(),
  error: z.string(),
  at: z.number(),
})
export type DeadLetter = z.infer<typeof DeadLetter>

export const Status = z.object({
  version: z.string(),
  host: z.enum(['workerd', 'deno']),
  versions: z.record(z.string(), z.string()),
  libsql: z.object({
    reachable: z.boolean(),
    latencyMs: z.number().nullable(),
    error: z.string().nullable(),
  }),
  outbox: z.object({
    lagMs: z.number().describe('Age of the oldest row that has not reached libSQL'),
    pendingSessions: z.number().int(),
    deadLetters: z.array(DeadLetter),
  }),
  sessions: z.object({ live: z.number().int().nullable() }),
})
export type Status = z.infer<typeof Status>
