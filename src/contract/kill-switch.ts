import { z } from 'zod'
import { Text } from './ids.ts'

export const KillSwitchChange = z.strictObject({
  on: z.boolean(),
  reason: Text(500).default(''),
})
export type KillSwitchChange = z.infer<typeof KillSwitchChange>

const Switch = z.object({
  on: z.boolean(),
  reason: z.string(),
  changedAt: z.number().nullable(),
  changedBy: z.string().nullable(),
})

/** While it is on no sandbox is granted, and every one that lives is being stopped. */
export const KillSwitch = Switch.extend({
  liveSandboxes: z.number().int().describe('Whose end is not confirmed yet'),
  deployment: z.object({ on: z.boolean(), reason: z.string() }),
})
export type KillSwitch = z.infer<typeof KillSwitch>

export const DeploymentKillSwitch = Switch.extend({
  organisations: z.number().int().describe('Those that ever had a sandbox'),
  untold: z.number().int().describe('Those that have not confirmed the change yet'),
})
export type DeploymentKillSwitch = z.infer<typeof DeploymentKillSwitch>
