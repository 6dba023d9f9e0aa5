import { z } from 'zod'
import { Text } from '../ids.ts'
import { allModes } from '../mode.ts'
import type { ContractTool } from '../tool.ts'
import { EnvKey } from './paths.ts'

const Suggestion = z.union([
  Text(1000, 1),
  z.strictObject({
    label: Text(200, 1),
    value: Text(1000).optional(),
    instructions: Text(2000).optional(),
  }),
])

export const EnvRequestKey = z.strictObject({
  key: EnvKey.describe('Name of the variable'),
  type: z
    .enum(['secret', 'env'])
    .default('secret')
    .describe('env: a plain setting, never stored for later sessions'),
  required: z.boolean().default(true).describe('false if you are not sure that it is needed'),
  suggestions: z
    .array(
      Suggestion.transform((item) =>
        typeof item === 'string' ? { label: item, value: item } : item,
      ),
    )
    .max(10)
    .default([])
    .describe('Values to pick from, or where to find the value'),
})
export type EnvRequestKey = z.infer<typeof EnvRequestKey>

/** Also parses the payload of the streamed event, which is what the model sent: OpenCode checks no arguments. */
export const RequestEnvVariablesArgs = z.strictObject({
  keys: z.array(EnvRequestKey).min(1).max(50),
})
export type RequestEnvVariablesArgs = z.infer<typeof RequestEnvVariablesArgs>

export const requestEnvVariablesTool = {
  name: 'request_env_variables',
  aliases: [],
  domain: 'sandbox',
  modes: allModes,
  fileName: 'request_env_variables',
  localAnswer:
    'The user has been asked. The values will be in the env file once they are entered: go on with what does not need them, then look for the keys there, one key at a time.',
  args: RequestEnvVariablesArgs,
  description: 'Ask the user for environment variables or secrets that the project needs.',
  guidance: [
    'Returns at once; the user answers later, and the values appear in the env file that your instructions name. Ask for everything you need in one call, 1 to 50 keys.',
    'type "secret" (default) for credentials, "env" for plain settings. required false when you are not sure. suggestions help the user: a value to pick, or where to find one.',
    'Never ask for a key of a service that is connected as an integration, never ask for a secret in the chat, and never print the env file as a whole: read the one key that you need.',
  ].join('\n'),
  onConflict: 'refuse',
} as const satisfies ContractTool
