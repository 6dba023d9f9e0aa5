import { z } from 'zod'

export const SessionDiff = z.object({
  at: z.number().nullable().describe('When it was taken; null if there is none yet'),
  live: z.boolean().describe('Taken from the sandbox for this request'),
  patch: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      status: z.enum(['added', 'modified', 'deleted', 'renamed']),
      additions: z.number().int(),
      deletions: z.number().int(),
    }),
  ),
  truncated: z.boolean(),
})
export type SessionDiff = z.infer<typeof SessionDiff>
/** What an agent reports; `at` and `live` are the control plane's. */
export const DiffReport = SessionDiff.pick({ patch: true, files: true, truncated: true })
export type DiffReport = z.infer<typeof DiffReport>
export const maxDiffBytes = 512 * 1024
