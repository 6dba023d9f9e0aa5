import { AppError, type ErrorCode } from '../../contract/error.ts'
import type { ProviderCheck, SandboxInfo, SandboxProvider, SnapshotInfo } from '../../core/ports.ts'

export interface LocalSandboxOptions {
  hostUrl: string
  secret: string
  /** Absolute folder of all sandboxes, the same that the host uses. */
  root: string
}

interface Answer {
  status: number
  text: string
}

const createTimeoutMs = 15_000
const getTimeoutMs = 5_000
// It starts OpenCode to see whether that runs.
const checkTimeoutMs = 15_000
// The host gives the agent ten seconds to end in order.
const stopTimeoutMs = 30_000
// Longer than the host tries to.
const freezeTimeoutMs = 10_000
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
      const answer = await ask('PUT', path, createTimeoutMs, spec)
      if (!isOk(answer)) throw refusal(answer)
      return bodyOf(answer) as SandboxInfo
    },
    get: async (sessionId, generation) => {
      const answer = await ask('GET', sandboxPath(sessionId, generation), getTimeoutMs)
      return answer.status === 404 ? null : (bodyOf(answer) as SandboxInfo)
    },
    list: async (organisationId) => {
      const path = `/sandboxes?organisation=${encodeURIComponent(organisationId)}`
      const body = bodyOf(await ask('GET', path, getTimeoutMs))
      return (body as { items: SandboxInfo[] }).items
    },
    extend: async (sessionId, generation, seconds) => {
      const path = `${sandboxPath(sessionId, generation)}/lifetime`
      const answer = await ask('PUT', path, getTimeoutMs, { seconds })
      if (!isOk(answer)) throw refusal(answer)
    },
    stop: async (sessionId, generation) => {
      const answer = await ask('DELETE', sandboxPath(sessionId, generation), stopTimeoutMs)
      if (!isOk(answer)) throw trouble(answer)
    },
    freeze: async (sessionId, generation) => {
      const path = `${sandboxPath(sessionId, generation)}/freeze`
      const answer = await ask('PUT', path, freezeTimeoutMs)
      if (!isOk(answer)) throw refusal(answer)
    },
    check: async () => {
      try {
        const answer = await ask('GET', '/check', checkTimeoutMs)
        if (answer.status === 401) return [reached(options.hostUrl), wrongSecret]
        const { items } = bodyOf(answer) as { items: ProviderCheck[] }
        return [reached(options.hostUrl), rightSecret, ...items]
      } catch (error) {
        return [unreachable(options.hostUrl, (error as Error).message)]
      }
    },
    snapshot: async ({ organisationId, snapshotId, ...order }) => {
      const path = snapshotPath(organisationId, snapshotId)
      const answer = await ask('PUT', path, snapshotTimeoutMs, order)
      if (!isOk(answer)) throw refusal(answer)
      return { snapshotId, bytes: (bodyOf(answer) as SnapshotInfo).bytes }
    },
    deleteSnapshot: async (organisationId, snapshotId) => {
      const path = snapshotPath(organisationId, snapshotId)
      const answer = await ask('DELETE', path, stopTimeoutMs)
      if (!isOk(answer)) throw trouble(answer)
    },
  }

  async function ask(
    method: string,
    path: string,
    timeoutMs: number,
    body?: object,
  ): Promise<Answer> {
    try {
      const response = await fetch(`${options.hostUrl}${path}`, {
        method,
        headers: { authorization: `Bearer ${options.secret}`, 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
        signal: AbortSignal.timeout(timeoutMs),
      })
      return { status: response.status, text: await response.text() }
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

const reached = (url: string): ProviderCheck => ({
  name: 'host',
  ok: true,
  message: `The sandbox host at ${url} answers`,
  hint: null,
})
const rightSecret: ProviderCheck = {
  name: 'secret',
  ok: true,
  message: 'The sandbox host accepts the secret',
  hint: null,
}
const wrongSecret: ProviderCheck = {
  name: 'secret',
  ok: false,
  message: 'The sandbox host refuses the secret',
  hint: 'Give the control plane the secret that the host was started with, as SANDBOX_HOST_SECRET',
}
const unreachable = (url: string, message: string): ProviderCheck => ({
  name: 'host',
  ok: false,
  message,
  hint: `Start the sandbox host ("npm start" does), or correct SANDBOX_HOST_URL: it is ${url}`,
})

const isOk = ({ status }: Answer) => status >= 200 && status < 300

function bodyOf(answer: Answer): object {
  const body = isOk(answer) ? jsonOf(answer.text) : undefined
  if (body === undefined) throw trouble(answer)
  return body
}

function jsonOf(text: string): object | undefined {
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

const refusals: Record<number, ErrorCode> = {
  404: 'not_found',
  409: 'wrong_state',
  413: 'too_large',
  422: 'unprocessable',
}

/** What the host says of the order itself is for the caller to read; anything else is the host's trouble. */
function refusal(answer: Answer): AppError {
  const code = refusals[answer.status]
  const { message } = (jsonOf(answer.text) ?? {}) as { message?: unknown }
  return code === undefined || typeof message !== 'string'
    ? trouble(answer)
    : new AppError(code, message)
}

const trouble = ({ status, text }: Answer) =>
  new AppError('sandbox_unavailable', `The sandbox host answered ${status}: ${text.slice(0, 300)}`)
