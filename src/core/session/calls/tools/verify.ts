import {
  maxArtifactBytes,
  maxArtifactFiles,
  maxArtifactTotalBytes,
  type ToolResult,
} from '../../../../contract/tool.ts'
import { defaultVerificationFolder, verifyTool } from '../../../../contract/tools/verify.ts'
import type { CollectedFile } from '../../../../contract/artifact.ts'
import { AppError } from '../../../../contract/error.ts'
import { type CallContext, gatewayTool } from './tool.ts'

/** Repeatable: uploads are addressed by content, artifacts by operation and path. */
export const verify = gatewayTool({
  definition: verifyTool,
  repeatable: true,
  async run(args, call) {
    const folder = args.folder ?? defaultVerificationFolder
    const { files } = await call.command('collect', {
      operationId: call.operationId,
      folder,
      maxFiles: maxArtifactFiles,
      maxFileBytes: maxArtifactBytes,
      maxTotalBytes: maxArtifactTotalBytes,
    })
    if (files.length === 0) return nothingThere(folder)
    await checkFiles(files, call)
    call.storeArtifacts(files)
    const prefix = `${call.sessionId}/${call.operationId}`
    return {
      success: true,
      result: JSON.stringify({ key: prefix }),
      data: { uploadedCount: files.length, prefix },
    }
  },
})

function nothingThere(folder: string): ToolResult {
  return {
    success: true,
    result: `No files in "${folder}": put the evidence there and call verify again`,
    data: { uploadedCount: 0 },
  }
}

/** The sandbox's word is not enough: the limits hold here, and every file must really have been uploaded. */
async function checkFiles(files: CollectedFile[], call: CallContext): Promise<void> {
  const total = files.reduce((sum, file) => sum + file.size, 0)
  if (files.length > maxArtifactFiles || total > maxArtifactTotalBytes) {
    throw new AppError('too_large', `Too much evidence: ${files.length} files, ${total} bytes`)
  }
  if (new Set(files.map((file) => file.path)).size < files.length) {
    throw new AppError('unprocessable', 'The sandbox reported one path twice')
  }
  const sizes = await call.blobs().hold(
    call,
    files.map((file) => file.sha256),
  )
  const missing = files.find((file) => sizes.get(file.sha256) !== file.size)
  if (missing) throw new AppError('unprocessable', `"${missing.path}" was not uploaded whole`)
}
