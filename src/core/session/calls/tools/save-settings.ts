import { saveEnvFilesTool, saveServiceCommandsTool } from '../../../../contract/tools.ts'
import type { ToolResult } from '../../../../contract/tool.ts'
import {
  saveEnvFiles as storeEnvFiles,
  saveServiceCommands as storeCommands,
} from '../../../registry/configurations/configurations.ts'
import { type CallContext, gatewayTool } from './tool.ts'

/** What a setup session finds out goes to its configuration. Repeatable: the list replaces the one before. */
export const saveServiceCommands = gatewayTool({
  definition: saveServiceCommandsTool,
  repeatable: true,
  run: ({ commands }, call) =>
    saved(
      call,
      'service commands',
      commands.map(({ name }) => name),
      (key) => storeCommands(call.db(), call.now(), { ...key, commands }),
    ),
})

export const saveEnvFiles = gatewayTool({
  definition: saveEnvFilesTool,
  repeatable: true,
  run: ({ files }, call) =>
    saved(
      call,
      'env files',
      files.map(({ path }) => path),
      (key) => storeEnvFiles(call.db(), call.now(), { ...key, files }),
    ),
})

async function saved(
  { organisationId, configurationId }: CallContext,
  what: string,
  names: string[],
  store: (key: { organisationId: string; configurationId: string }) => Promise<unknown>,
): Promise<ToolResult> {
  if (configurationId === null)
    return { success: false, result: 'This session has no configuration to save to' }
  await store({ organisationId, configurationId })
  return {
    success: true,
    result: `Saved ${names.length} ${what}: ${names.join(', ')}`,
    data: { count: names.length },
  }
}
