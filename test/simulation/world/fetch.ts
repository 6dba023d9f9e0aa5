import { AppError, errorCodeOf, errorTable } from '../../../src/contract/error.ts'
import { storeUpload } from '../../../src/core/verbs/store-upload.ts'
import type { Process } from '../platform/process.ts'
import { claimsOf } from './claims.ts'
import type { Outside } from './outside.ts'

interface Init {
  method?: string
  headers: { authorization: string }
  body?: string | Uint8Array
  signal?: AbortSignal
}

/** As much of a response as the agent reads. */
interface Answer {
  ok: boolean
  status: number
  statusText: string
  headers: { get(name: string): string | null }
  text(): Promise<string>
}

const answer = (status: number, text: string): Answer => ({
  ok: status < 300,
  status,
  statusText: '',
  headers: { get: () => null },
  text: async () => text,
})

/** The routes that an agent uses, over the network: the guards behind them are the session's own. */
export function createFetch(outside: Outside, edge: Process) {
  return (url: string, init: Init): Promise<Answer> =>
    new Promise((resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(new Error('Too late')))
      outside.network
        .call(
          `http ${init.method ?? 'GET'} ${url.split('/').at(-1)}`,
          () => edge,
          () => respond(outside, new URL(url).pathname, init),
        )
        .then(resolve, reject)
    })
}

async function respond(outside: Outside, path: string, init: Init): Promise<Answer> {
  try {
    return answer(200, await route(outside, path, init))
  } catch (error) {
    const code = errorCodeOf(error) ?? 'internal'
    const message = error instanceof Error ? error.message : String(error)
    return answer(errorTable[code].status, JSON.stringify({ error: { code, message } }))
  }
}

async function route(outside: Outside, path: string, { headers, body }: Init): Promise<string> {
  const { sessionId, ...sandbox } = claimsOf(headers.authorization.slice('Bearer '.length))
  const { session, blobs, crypto } = outside
  const [, , , last, tool] = path.split('/')
  if (last === 'tools') {
    const { tool_call_id: toolCallId, args } = JSON.parse(String(body)) as {
      tool_call_id: string
      args: Record<string, unknown>
    }
    const call = { tool: tool ?? '', toolCallId, args }
    return (await session(sessionId).calls.call(sandbox, call)).body
  }
  if (last === 'artifacts') {
    const read = async () => body as Uint8Array
    const stored = await storeUpload({ session, blobs, crypto }, { sessionId, ...sandbox }, read)
    return JSON.stringify(stored)
  }
  if (last === 'evidence') {
    const answer = await session(sessionId).evidence.takeBundle(sandbox, tool ?? '', String(body))
    return JSON.stringify(answer)
  }
  if (last !== 'manifest') throw new AppError('not_found', `Nothing at "${path}"`)
  await session(sessionId).agent.authorise(sandbox)
  return '{}'
}
