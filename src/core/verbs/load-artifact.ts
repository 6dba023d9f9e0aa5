import type { Artifact } from '../../contract/artifact.ts'
import { AppError } from '../../contract/error.ts'
import type { Blobs } from '../ports.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'

interface LoadArtifactPorts {
  session(id: string): { artifacts: Pick<SessionApi['artifacts'], 'get'> }
  blobs(): Pick<Blobs, 'get'>
}

/** The session knows the name, the store has the content. */
export async function loadArtifact(
  ports: LoadArtifactPorts,
  caller: Caller,
  { sessionId, artifactId }: { sessionId: string; artifactId: string },
): Promise<{ artifact: Artifact; bytes: Uint8Array }> {
  const artifact = await ports.session(sessionId).artifacts.get(caller, artifactId)
  const bytes = await ports.blobs().get(caller.organisationId, artifact.sha256)
  if (!bytes) throw new AppError('not_found', 'The content of this artifact is gone')
  return { artifact, bytes }
}
