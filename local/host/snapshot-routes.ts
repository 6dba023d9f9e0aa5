import type { IncomingMessage, ServerResponse } from 'node:http'
import { errorCodeOf, errorTable } from '../../src/contract/error.ts'
import { answerHostHttp, readHostHttp } from './http.ts'
import { SnapshotOrder, type Snapshots } from '../snapshots/snapshots.ts'

const maxBodyBytes = 16 * 1024 * 1024

/** `/snapshots/:organisationId/:snapshotId`. Whether it was one of its requests. */
export async function serveSnapshotRoute(
  snapshots: Snapshots,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<boolean> {
  const match = /^\/snapshots\/(org_[0-9a-z]{1,60})\/(snp_[0-9a-z]{20})$/.exec(request.url ?? '')
  if (match === null) return false
  const [, organisationId = '', snapshotId = ''] = match
  try {
    await serve(snapshots, organisationId, snapshotId, request, response)
  } catch (error) {
    const code = errorCodeOf(error)
    if (code === undefined) throw error
    answerHostHttp(response, errorTable[code].status, {
      error: code,
      message: (error as Error).message,
    })
  }
  return true
}

async function serve(
  snapshots: Snapshots,
  organisationId: string,
  snapshotId: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method === 'GET') {
    const found = snapshots.load(organisationId, snapshotId)
    return found
      ? answerHostHttp(response, 200, found)
      : answerHostHttp(response, 404, { error: 'not_found' })
  }
  if (request.method === 'DELETE') {
    await snapshots.remove(organisationId, snapshotId)
    return answerHostHttp(response, 204)
  }
  if (request.method !== 'PUT')
    return answerHostHttp(response, 405, { error: 'method_not_allowed' })
  const order = SnapshotOrder.safeParse(await readHostHttp(request, maxBodyBytes))
  // Without zod's text: the body holds secrets.
  if (!order.success) return answerHostHttp(response, 400, { error: 'invalid_request' })
  answerHostHttp(response, 200, await snapshots.take(organisationId, snapshotId, order.data))
}
