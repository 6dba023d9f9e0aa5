import { z } from 'zod'

export const SandboxesLeft = z.object({
  left: z.number().int().describe('Sandboxes that are not saved and stopped yet'),
})
export type SandboxesLeft = z.infer<typeof SandboxesLeft>
