import { AppError, type ErrorCode } from '../../contract/error.ts'
import type { SandboxInfo, SandboxProvider, SnapshotInfo } from '../../core/ports.ts'

export interface LocalSandboxOptions {
  hostUrl: string
  secret: string
  /** Absolute folder of all sandboxes, the same that the host uses. */
  root: string
}

const createTimeoutMs = 15_000
const getTimeoutMs = 5_000
// The host gives the agent ten seconds to end in order.
const stopTimeoutMs = 30_000
// Longer than the host's own limits together: whoever asks again joins.
const snapshotTimeoutMs = 100_000

/** Sandboxes as child processes of the host on this machine. */
export function createLocalSandboxes(options: LocalSandboxOptions): SandboxProvider {
  return {
    layout: (sessionId, generation) => {
      const folder = `${options.root}/${sessionId}.${generation}`
      return {
        home: `${folder}/home`,
        workspace: `${folder}/workspace`,
        configDir: `${folder}/config`,
        envFile: `${folder}/tmp/.proliferate_env.json`,
        hostname: '127.0.0.1',
        port: 0,
      }
    },
    create: async (spec) => {
      const path = sandboxPath(spec.sessionId, spec.generation)
      const response = await ask('PUT', path, createTimeoutMs, spec)
      if (!response.ok) throw await unexpected(response)
      return (await response.json()) as SandboxInfo
    },
    get: async (sessionId, generation) => {
      const response = await ask('GET', sandboxPath(sessionId, generation), getTimeoutMs)
      if (response.status === 404) {
        await response.body?.cancel()
        return null
      }
      if (!response.ok) throw await unexpected(response)
      return (await response.json()) as SandboxInfo
    },
    stop: async (sessionId, generation) => {
      const response = await ask('DELETE', sandboxPath(sessionId, generation), stopTimeoutMs)
      if (!response.ok) throw await unexpected(response)
      await response.body?.cancel()
    },
    snapshot: async ({ organisationId, snapshotId, ...order }) => {
      const path = snapshotPath(organisationId, snapshotId)
      const response = await ask('PUT', path, snapshotTimeoutMs, order)
      if (!response.ok) throw await refusal(response)
      const { bytes } = (await response.json()) as SnapshotInfo
      return { snapshotId, bytes }
    },
    deleteSnapshot: async (organisationId, snapshotId) => {
      const path = snapshotPath(organisationId, snapshotId)
      const response = await ask('DELETE', path, stopTimeoutMs)
      if (!response.ok) throw await unexpected(response)
      await response.body?.cancel()
    },
  }

  async function ask(
    method: string,
    path: string,
    timeoutMs: number,
    body?: object,
  ): Promise<Response> {
    try {
      return await fetch(`${options.hostUrl}${path}`, {
        method,
        headers: { authorization: `Bearer ${options.secret}`, 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
      })
    } catch (error) {
      throw new AppError(
        'sandbox_unavailable',
        `Cannot reach the sandbox host: ${(error as Error).message}`,
      )
    }
  }
}

const sandboxPath = (sessionId: string, generation: number) =>
  `/sandboxes/${sessionId}/${generation}`
const snapshotPath = (organisationId: string, snapshotId: string) =>
  `/snapshots/${organisationId}/${snapshotId}`

const refusals: Record<number, ErrorCode> = {
  404: 'not_found',
  409: 'wrong_state',
  413: 'too_large',
  422: 'unprocessable',
}

/** What the host says of the snapshot itself is for the agent to read; anything else is the host's trouble. */
async function refusal(response: Response): Promise<AppError> {
  const code = refusals[response.status]
  const text = await response.text()
  const message = code === undefined ? undefined : messageIn(text)
  return code === undefined || message === undefined
    ? trouble(response.status, text)
    : new AppError(code, message)
}

function messageIn(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}

const unexpected = async (response: Response) => trouble(response.status, await response.text())

const trouble = (status: number, text: string) =>
  new AppError('sandbox_unavailable', `The sandbox host answered ${status}: ${text.slice(0, 300)}`)
