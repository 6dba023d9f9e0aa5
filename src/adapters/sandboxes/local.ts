import { AppError } from '../../contract/error.ts'
import type { SandboxInfo, SandboxProvider } from '../../core/ports.ts'

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
      const response = await ask(
        'PUT',
        spec.sessionId,
        spec.generation,
        createTimeoutMs,
        JSON.stringify(spec),
      )
      if (!response.ok) throw await unexpected(response)
      return (await response.json()) as SandboxInfo
    },
    get: async (sessionId, generation) => {
      const response = await ask('GET', sessionId, generation, getTimeoutMs)
      if (response.status === 404) {
        await response.body?.cancel()
        return null
      }
      if (!response.ok) throw await unexpected(response)
      return (await response.json()) as SandboxInfo
    },
    stop: async (sessionId, generation) => {
      const response = await ask('DELETE', sessionId, generation, stopTimeoutMs)
      if (!response.ok) throw await unexpected(response)
      await response.body?.cancel()
    },
  }

  async function ask(
    method: string,
    sessionId: string,
    generation: number,
    timeoutMs: number,
    body: string | null = null,
  ): Promise<Response> {
    try {
      return await fetch(`${options.hostUrl}/sandboxes/${sessionId}/${generation}`, {
        method,
        headers: { authorization: `Bearer ${options.secret}`, 'content-type': 'application/json' },
        body,
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

async function unexpected(response: Response): Promise<AppError> {
  const text = (await response.text()).slice(0, 300)
  return new AppError(
    'sandbox_unavailable',
    `The sandbox host answered ${response.status}: ${text}`,
  )
}
