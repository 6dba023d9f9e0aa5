import { z } from 'zod'
import { Text } from '../ids.ts'
import type { ContractTool } from '../tool.ts'
import { InnerPath, WorkspacePath } from './paths.ts'

/** How one service of a configuration is started. */
export const ServiceCommand = z.strictObject({
  name: Text(100, 1).describe('Short name, such as "web" or "worker"'),
  command: Text(1000, 1).describe('The shell command that starts it in the foreground'),
  cwd: InnerPath(500)
    .optional()
    .describe('Folder in which it starts, relative to workspacePath. Default: workspacePath'),
  workspacePath: WorkspacePath,
})
export type ServiceCommand = z.infer<typeof ServiceCommand>

export const saveServiceCommandsTool = {
  name: 'save_service_commands',
  aliases: [],
  domain: 'gateway',
  modes: ['setup'],
  fileName: 'save_service_commands',
  args: z.strictObject({
    commands: z
      .array(ServiceCommand)
      .min(1)
      .max(10)
      .describe('All services of the configuration, 1 to 10: the list replaces the one before'),
  }),
  description: 'Save the commands that start the services of this project, for later sessions.',
  guidance: [
    'Setup sessions only. Call it after you have started every service with exactly these commands and seen it work.',
    'Send the whole list: it replaces what was saved before. 1 to 10 commands; name up to 100 characters, command up to 1000, paths up to 500.',
    'Paths are relative to the workspace, without "..", backslash or drive letter. No secret values in commands: services read them from the environment or from env files.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ContractTool
