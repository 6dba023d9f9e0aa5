import { z } from 'zod'
import { ChangedLines } from './reported.ts'

export const LeftOut = z.object({
  path: z.string().describe('In the workspace'),
  reason: z.string(),
})
export type LeftOut = z.infer<typeof LeftOut>

const report = {
  patch: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      status: z.enum(['added', 'modified', 'deleted', 'renamed']),
      additions: ChangedLines,
      deletions: ChangedLines,
    }),
  ),
  truncated: z.boolean(),
}

export const SessionDiff = z.object({
  at: z.number().nullable().describe('When it was taken; null if there is none yet'),
  live: z.boolean().describe('Taken from the sandbox for this request'),
  ...report,
  leftOut: z.array(LeftOut).describe('What is in the workspace and could not be compared'),
  generation: z
    .number()
    .int()
    .nullable()
    .describe('Of the sandbox that it was taken from; an older one if the present one has none'),
})
export type SessionDiff = z.infer<typeof SessionDiff>
/** What an agent reports; the rest is the control plane's. */
export const DiffReport = z.object({
  ...report,
  /** Absent: an older agent. */
  leftOut: z.array(LeftOut).optional(),
  /** The git tree that it is against. Absent: an older agent. */
  base: z.string().max(64).optional(),
  /** The commit that its workspace began at. Absent: there is none, or another sandbox of the session has told it. */
  commit: z.string().max(64).optional(),
})
export type DiffReport = z.infer<typeof DiffReport>
export const maxDiffBytes = 512 * 1024
/** Of more than these it only says that there are more. */
export const maxDiffFiles = 500
/** The reason of one that stands for its commit, which is compared. */
export const diffOfSubmodule = 'A submodule: only its commit is here'
