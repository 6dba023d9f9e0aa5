import type { LoneRunCreate, Run } from '../../contract/run.ts'
import { SessionCreate } from '../../contract/session.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'
import { createSession, type CreateSessionPorts } from './create-session.ts'

interface CreateLoneRunPorts extends CreateSessionPorts {
  session(id: string): ReturnType<CreateSessionPorts['session']> & {
    runs: Pick<SessionApi['runs'], 'create'>
  }
}

/** A run without a sandbox, in a session of its own. */
export async function createLoneRun(
  ports: CreateLoneRunPorts,
  caller: Caller,
  { project, ...run }: LoneRunCreate,
  key: string | null,
): Promise<Run> {
  const title = run.intent.slice(0, 200).toWellFormed()
  const input = SessionCreate.parse({ project, title, sandbox: 'none' })
  const session = await createSession(ports, caller, input, key && `run ${key}`)
  return await ports.session(session.id).runs.create(caller, run, key)
}
