import { z } from 'zod'
import { ArtifactId } from './ids.ts'
import { maxArtifactBytes } from './tool.ts'

export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

export const Artifact = z.object({
  id: ArtifactId,
  operationId: z.string().describe('The tool call that stored it'),
  path: z.string(),
  contentType: z.string(),
  size: z.number().int(),
  sha256: Sha256,
  createdAt: z.number(),
})
export type Artifact = z.infer<typeof Artifact>

/** A file that the agent has uploaded, as it names it in a command's result. */
export const CollectedFile = z.object({
  path: z.string().min(1).max(1000),
  size: z.number().int().min(0).max(maxArtifactBytes),
  sha256: Sha256,
  contentType: z.string().max(200),
})
export type CollectedFile = z.infer<typeof CollectedFile>

export const UploadAnswer = z.object({ sha256: Sha256, size: z.number().int() })
export type UploadAnswer = z.infer<typeof UploadAnswer>
