import type { UploadAnswer } from '../../contract/artifact.ts'
import type { Blobs, Crypto } from '../ports.ts'
import type { SessionApi } from '../session/session.ts'
import type { SandboxCaller } from '../session/record/caller.ts'

interface StoreUploadPorts {
  session(id: string): { agent: Pick<SessionApi['agent'], 'authorise' | 'admitUpload'> }
  crypto: Pick<Crypto, 'sha256'>
  blobs(): Pick<Blobs, 'put'>
}

/** The bytes are read once the session has let the sandbox in, and stored once it has admitted them. */
export async function storeUpload(
  ports: StoreUploadPorts,
  sandbox: SandboxCaller & { sessionId: string },
  read: () => Promise<Uint8Array>,
): Promise<UploadAnswer> {
  const { sessionId, ...caller } = sandbox
  await ports.session(sessionId).agent.authorise(caller)
  const bytes = await read()
  const sha256 = await ports.crypto.sha256(bytes)
  await ports.session(sessionId).agent.admitUpload(caller, sha256, bytes)
  await ports.blobs().put(sandbox, sha256, bytes)
  return { sha256, size: bytes.length }
}
