import { z } from 'zod'
import type { ContractTool } from '../tool.ts'
import { EnvKey, InnerPath, WorkspacePath } from './paths.ts'

/** Which env file to generate, with which keys. There is no field for a value, so none can be stored. */
export const EnvFile = z.strictObject({
  workspacePath: WorkspacePath,
  path: InnerPath(500, 1).describe('The file, relative to workspacePath, such as ".env.local"'),
  format: z.literal('dotenv'),
  mode: z.literal('secret'),
  keys: z
    .array(
      z.strictObject({
        key: EnvKey.describe('Name of the variable'),
        required: z.boolean().describe('Whether the project fails to start without it'),
      }),
    )
    .min(1)
    .max(50),
})
export type EnvFile = z.infer<typeof EnvFile>

export const saveEnvFilesTool = {
  name: 'save_env_files',
  aliases: [],
  domain: 'gateway',
  modes: ['setup'],
  fileName: 'save_env_files',
  args: z.strictObject({
    files: z
      .array(EnvFile)
      .min(1)
      .max(10)
      .describe('All env files of the configuration, 1 to 10: the list replaces the one before'),
  }),
  description:
    'Save which env files this project needs and which keys are in them (names only, never values).',
  guidance: [
    'Setup sessions only. Later sessions generate these files at start from the stored secrets.',
    'Send the whole list: it replaces what was saved before. 1 to 10 files; each with path, format "dotenv", mode "secret" and 1 to 50 keys; each key says whether it is required.',
    'Paths are relative, without "..", backslash or drive letter. Name keys only: a value has no place here.',
    'Ask for missing values with request_env_variables first.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ContractTool
