import { z } from 'zod'

/** An ability that a session offers to its model: one that is stored, or one that lies in its workspace. */
export const OfferedAbility = z.object({
  name: z
    .string()
    .describe(
      'By which it is run; "workspace:" before it if a stored one has the name. Its path, if it cannot be read',
    ),
  description: z.string(),
  source: z.enum(['stored', 'workspace']),
  version: z.number().int().nullable().describe('null: of the workspace'),
  hash: z.string().nullable().describe('Of its folder, if it is of the workspace'),
  path: z.string().nullable().describe('Below .opencode/abilities'),
  runnable: z.boolean(),
  needsApproval: z
    .boolean()
    .describe('A person approves its exact files before anything of it runs'),
  problems: z.array(z.string()).describe('Why it cannot be run here'),
})
export type OfferedAbility = z.infer<typeof OfferedAbility>

export const OfferedAbilities = z.object({ items: z.array(OfferedAbility) })
export type OfferedAbilities = z.infer<typeof OfferedAbilities>
