import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { errorCodeOf, errorTable } from '../../src/contract/error.ts'
import { SessionId, SnapshotId } from '../../src/contract/ids.ts'
import type { ProviderCheck } from '../../src/core/ports.ts'
import type { Fleet } from '../sandboxes/fleet.ts'
import { answerHostHttp, mayCallHostHttp, readHostHttp } from './http.ts'
import { sandboxName } from '../sandboxes/record.ts'
import { serveSnapshotRoute } from './snapshot-routes.ts'
import type { Snapshots } from '../snapshots/snapshots.ts'

const maxBodyBytes = 1024 * 1024
const maxSeconds = 366 * 24 * 3600
const Seconds = z.number().positive().max(maxSeconds)

const SpecBody = z.strictObject({
  sessionId: SessionId,
  organisationId: z.string().max(100),
  generation: z.number().int().positive(),
  gatewayUrl: z.url(),
  token: z.string().min(1).max(8000),
  repository: z
    .strictObject({
      url: z.string().min(1).max(2000),
      ref: z.string().min(1).max(200).nullable(),
      token: z.string().max(4000).nullable(),
    })
    .nullable(),
  snapshotId: SnapshotId.nullable(),
  // There is one only: the machine itself.
  image: z.string().max(500).nullable(),
  limits: z.strictObject({
    memoryMb: z.number().int().positive().nullable(),
    processes: z.number().int().positive().nullable(),
    lifetimeSeconds: Seconds,
  }),
})
const LifetimeBody = z.strictObject({ seconds: Seconds })

/** What the routes serve, and the secret that a caller must show. */
interface Served {
  secret: string
  fleet: Fleet
  snapshots: Snapshots
  check: () => Promise<ProviderCheck[]>
}

export async function serveHostRoute(
  served: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    await route(served, request, response)
  } catch (error) {
    const code = errorCodeOf(error)
    if (code === undefined) console.error(error)
    const { status } = errorTable[code ?? 'internal']
    const message = code === undefined ? undefined : (error as Error).message
    answerHostHttp(response, status, { error: code ?? 'internal', message })
  }
}

async function route(
  { secret, fleet, snapshots, check }: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (!mayCallHostHttp(request.headers.authorization, secret))
    return answerHostHttp(response, 401, { error: 'unauthenticated' })
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://host')
  if (pathname === '/check' && request.method === 'GET')
    return answerHostHttp(response, 200, { items: await check() })
  if (pathname === '/sandboxes' && request.method === 'GET')
    return answerHostHttp(response, 200, { items: fleet.list(searchParams.get('organisation')) })
  if (await serveSnapshotRoute(snapshots, request, response)) return
  const match = /^\/sandboxes\/(ses_[0-9a-z]{30})\/([1-9]\d{0,8})(\/lifetime|\/freeze)?$/.exec(
    request.url ?? '',
  )
  if (match === null) return answerHostHttp(response, 404, { error: 'not_found' })
  const [, sessionId = '', generation = '', act] = match
  const name = sandboxName(sessionId, Number(generation))
  const serveIt = act === undefined ? one : act === '/freeze' ? freeze : extend
  await serveIt(fleet, name, request, response)
}

async function one(
  fleet: Fleet,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method === 'GET') {
    const info = fleet.get(name)
    return info
      ? answerHostHttp(response, 200, info)
      : answerHostHttp(response, 404, { error: 'not_found' })
  }
  if (request.method === 'DELETE') {
    await fleet.remove(name)
    return answerHostHttp(response, 204)
  }
  if (request.method !== 'PUT')
    return answerHostHttp(response, 405, { error: 'method_not_allowed' })
  const spec = SpecBody.safeParse(await readHostHttp(request, maxBodyBytes))
  if (!spec.success || sandboxName(spec.data.sessionId, spec.data.generation) !== name)
    return answerHostHttp(response, 400, { error: 'invalid_request', message: spec.error?.message })
  answerHostHttp(response, 200, fleet.create(spec.data))
}

async function freeze(
  fleet: Fleet,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'PUT')
    return answerHostHttp(response, 405, { error: 'method_not_allowed' })
  const sandbox = fleet.find(name)
  if (sandbox === undefined) return answerHostHttp(response, 404, { error: 'not_found' })
  await sandbox.freeze()
  answerHostHttp(response, 204)
}

async function extend(
  fleet: Fleet,
  name: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'PUT')
    return answerHostHttp(response, 405, { error: 'method_not_allowed' })
  const body = LifetimeBody.safeParse(await readHostHttp(request, maxBodyBytes))
  if (!body.success)
    return answerHostHttp(response, 400, { error: 'invalid_request', message: body.error.message })
  fleet.extend(name, body.data.seconds)
  answerHostHttp(response, 204)
}
