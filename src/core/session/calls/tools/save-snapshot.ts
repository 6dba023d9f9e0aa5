import { AppError } from '../../../../contract/error.ts'
import type { ToolResult } from '../../../../contract/tool.ts'
import { saveSnapshotTool } from '../../../../contract/tools/save-snapshot.ts'
import { setBaseSnapshot } from '../../../registry/configurations/configurations.ts'
import { snapshotIdOf } from './snapshot-id.ts'
import { type CallContext, gatewayTool } from './tool.ts'

/** What it needs of its call. */
export type SnapshotContext = Pick<
  CallContext,
  | 'sessionId'
  | 'organisationId'
  | 'operationId'
  | 'now'
  | 'db'
  | 'mode'
  | 'configurationId'
  | 'generation'
  | 'provider'
  | 'generatedFiles'
  | 'knownSecrets'
  | 'orderSnapshot'
  | 'storeSnapshot'
>

/** Repeatable: the snapshot's id comes from the operation's, and the provider takes one id once. */
export const saveSnapshot = gatewayTool({
  definition: saveSnapshotTool,
  repeatable: true,
  run: (args, call) => runSaveSnapshot(args, call),
})

export async function runSaveSnapshot(
  { message = '' }: { message?: string | undefined },
  call: SnapshotContext,
): Promise<ToolResult> {
  const provider = await call.provider()
  if (!provider) throw new AppError('wrong_state', 'Cannot take a snapshot: there is no sandbox')
  const { organisationId, sessionId, generation, configurationId } = call
  const snapshotId = snapshotIdOf(call.operationId)
  const secrets = await call.knownSecrets()
  call.orderSnapshot(snapshotId)
  const { bytes } = await provider.snapshot({
    snapshotId,
    organisationId,
    sessionId,
    generation,
    secrets,
    generatedFiles: call.generatedFiles,
  })
  const isBase = call.mode === 'setup' && configurationId !== null
  const target = isBase ? 'configuration' : 'session'
  // Recorded before it is the base of a configuration: a base that no session knows would be deleted by nobody.
  call.storeSnapshot({ id: snapshotId, target, bytes, message })
  if (isBase)
    await setBaseSnapshot(call.db(), call.now(), { organisationId, configurationId, snapshotId })
  const result = isBase
    ? `Snapshot "${snapshotId}" saved on the configuration: later sessions start from it`
    : `Snapshot "${snapshotId}" saved on the session: a new sandbox of it starts from there`
  return { success: true, result, data: { snapshotId, target } }
}
