import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Sandbox, wantedOf } from './sandbox.ts'
import { emptyFolder } from './sandbox-folders.ts'
import { sandboxName, type SandboxRecord } from './sandbox-record.ts'
import { removeTree } from './state.ts'

/** One of an earlier host: its processes have been ended, its files are kept until it is stopped or its time is over. */
export function leftSandbox(root: string, record: SandboxRecord): Sandbox {
  const { sessionId, generation, organisationId, startedAt } = record
  const name = sandboxName(sessionId, generation)
  const folder = join(root, name)
  const reason = 'The sandbox host was restarted'
  return {
    info: () => ({ sessionId, generation, state: 'exited', reason, startedAt }),
    organisationId,
    folder,
    uid: record.uid, // taken, so that no other sandbox gets it meanwhile
    wanted: wantedOf(root, name, undefined),
    secrets: [],
    memoryMb: null,
    endsAt: () => record.endsAt,
    extend: () => undefined,
    isHollow: () => false,
    end: async () => undefined,
    expire: async () => void (existsSync(folder) && emptyFolder(folder)),
    remove: async () => removeTree(folder),
  }
}
