import { z } from 'zod'
import { LeftOut } from './diff.ts'
import { TurnId } from './ids.ts'

/** As JSON, so that it fits into one message beside the rest of the turn's end. */
export const maxPatchBytes = 600 * 1024

const tree = z.string().regex(/^[0-9a-f]{40}$/)

/** What an agent reports at the end of a turn: everything that differs from where the session began. */
export const TurnPatch = z.object({
  /** The git trees before and after. */
  base: tree,
  tree,
  files: z.number().int(),
  bytes: z.number().int(),
  /** Null: too large to send. */
  text: z.string().nullable(),
  /** Of the text as the agent has it: what was taken out of it on its way is noticed. */
  checksum: z.number().int(),
  /** What is in the workspace and not in the patch. Absent: an older agent. */
  leftOut: z.array(LeftOut).optional(),
})
export type TurnPatch = z.infer<typeof TurnPatch>

/** FNV-1a. Not against attackers: it says whether a text was changed on purpose by the redaction. */
export function patchChecksum(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1)
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193) >>> 0
  return hash
}

export const PatchRow = z.object({
  turnId: TurnId,
  generation: z.number().int(),
  at: z.number(),
  base: z
    .string()
    .describe('The git tree that it applies to: the files that the session began with'),
  tree: z.string().describe('The git tree that it leads to'),
  files: z.number().int(),
  bytes: z.number().int(),
  state: z
    .enum(['whole', 'changed', 'missing'])
    .describe(
      'whole: "git apply" takes it. changed: something was taken or left out. missing: not kept',
    ),
  note: z.string().nullable().describe('What was taken or left out, or why it is not kept'),
})
export type PatchRow = z.infer<typeof PatchRow>
