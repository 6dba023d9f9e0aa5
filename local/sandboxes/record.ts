import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { SessionId } from '../../src/contract/ids.ts'
import { sandboxMark, type Wanted } from '../processes/processes.ts'
import { writePrivateFile } from '../state/private-files.ts'

export const recordFile = 'record.json'

/** What a host that starts again knows of a sandbox: whose it is, and until when its folder is kept. */
const SandboxRecord = z.object({
  sessionId: SessionId,
  generation: z.number().int().positive(),
  organisationId: z.string(),
  uid: z.number().int().optional(),
  startedAt: z.number(),
  endsAt: z.number(),
})
export type SandboxRecord = Omit<z.infer<typeof SandboxRecord>, 'sessionId'> & { sessionId: string }

export const sandboxName = (sessionId: string, generation: number) => `${sessionId}.${generation}`

/**
 * In the sandbox's folder, so that it goes with it; its user may pass through that folder, but neither read nor write.
 */
export function saveSandboxRecord(folder: string, record: SandboxRecord): void {
  writePrivateFile(join(folder, recordFile), `${JSON.stringify(record)}\n`)
}

/** null: none, or not of the sandbox that the folder is named after. */
export function loadSandboxRecord(root: string, name: string): SandboxRecord | null {
  const path = join(root, name, recordFile)
  if (!existsSync(path)) return null
  try {
    const record = SandboxRecord.parse(JSON.parse(readFileSync(path, 'utf8')))
    return sandboxName(record.sessionId, record.generation) === name ? record : null
  } catch {
    return null
  }
}

/** How to find the processes of a sandbox: OpenCode's children have sessions of their own and share no group. */
export function recordedProcesses(root: string, name: string, uid: number | undefined): Wanted {
  return {
    marks: [`${sandboxMark}=${name}`, `HOME=${join(root, name, 'home')}`],
    uids: uid === undefined ? [] : [uid],
  }
}
