import { z } from '@hono/zod-openapi'
import { Sha256 } from '../../contract/artifact.ts'
import * as eventSchemas from '../../contract/change.ts'
import * as schemas from '../../contract/change-ledger.ts'
import {
  Backfill,
  BackfillCreate,
  BundleAnswer,
  ChangeImport,
  ChangeImported,
  ChangeReject,
  ChangeReview,
  ChangesAccepted,
  ChangesRejected,
  FileHunks,
  HunksQuery,
  RunChanges,
} from '../../contract/change-ledger.ts'
import { AppError } from '../../contract/error.ts'
import { maxBundleBytes } from '../../contract/evidence.ts'
import { CollectId, RunId, SessionId } from '../../contract/ids.ts'
import { PageQuery } from '../../contract/page.ts'
import { readBody } from '../kit/body.ts'
import { openapiJson, params } from '../kit/openapi.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { readPageCursor, readPageNumber } from '../kit/paging.ts'
import { accepted, ok, rawRoute, route } from '../kit/route.ts'

nameSchemas(eventSchemas, schemas)

const tag = 'changes'
const TextParams = z.object({ runId: RunId, sha256: Sha256 })
const CollectParams = z.object({ sessionId: SessionId, collectId: CollectId })

/** The ledger of what tools have changed in a run. */
export const runChangeRoutes = [
  route({
    id: 'listRunChanges',
    method: 'get',
    path: '/v1/runs/{runId}/changes',
    summary: 'What a run has changed, file by file, with how far it is proven',
    tag,
    guard: 'read',
    params: params.run,
    query: PageQuery,
    answers: ok(RunChanges, 'One page of files'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { runId }, query: { limit, cursor } }) =>
      session.evidence.list(caller, runId, {
        limit,
        after: readPageCursor(cursor, readPageNumber),
      }),
  }),

  rawRoute({
    id: 'downloadChangeText',
    method: 'get',
    path: '/v1/runs/{runId}/changes/texts/{sha256}',
    summary: 'Download a text of a change, before or after it',
    tag,
    guard: 'read',
    params: TextParams,
    responses: {
      200: {
        content: { 'text/plain': { schema: { type: 'string' } } },
        description: 'The bytes that the hash is of',
      },
    },
    refuses: ['not_found', 'storage_unavailable'],
    async respond({ deps, session, caller, params: { runId, sha256 } }, c) {
      await session.evidence.checkText(caller, runId, sha256)
      const bytes = await deps.blobs().get(caller.organisationId, sha256)
      if (!bytes) throw new AppError('not_found', 'The text is gone')
      return c.body(bytes as Uint8Array<ArrayBuffer>, 200, {
        'content-type': 'text/plain; charset=utf-8',
        'content-disposition': `attachment; filename="${sha256}.txt"`,
        // It comes from a sandbox: a browser must neither guess its type nor run it in our origin.
        'content-security-policy': "sandbox; default-src 'none'",
      })
    },
  }),

  route({
    id: 'backfillRunChanges',
    method: 'post',
    path: '/v1/runs/{runId}/changes/backfill',
    summary: 'Collect what OpenCode has stored of the turns of a run, if that was not done',
    tag,
    guard: 'write',
    params: params.run,
    body: BackfillCreate,
    idempotent: true,
    answers: accepted(Backfill, 'What was asked for'),
    refuses: ['not_found', 'key_conflict', 'session_closed', 'wrong_state'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.evidence.backfill(caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'importRunChanges',
    method: 'post',
    path: '/v1/runs/{runId}/changes/import',
    summary: 'Add changes that another agent has made; they are kept as they are',
    tag,
    guard: 'write',
    params: params.run,
    body: ChangeImport,
    idempotent: true,
    answers: ok(ChangeImported, 'How many were new'),
    refuses: ['not_found', 'key_conflict', 'session_closed', 'wrong_state', 'unprocessable'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.evidence.importChanges(caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'acceptRunChanges',
    method: 'post',
    path: '/v1/runs/{runId}/changes/accept',
    summary: 'Record that files are right as the run has left them',
    tag,
    guard: 'write',
    params: params.run,
    body: ChangeReview,
    idempotent: true,
    answers: ok(ChangesAccepted, 'Which files'),
    refuses: ['not_found', 'key_conflict', 'unprocessable'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.evidence.accept(caller, runId, body, idempotencyKey),
  }),

  route({
    id: 'listChangeHunks',
    method: 'get',
    path: '/v1/runs/{runId}/changes/hunks',
    summary: 'The hunks of a file that a run has changed, by names that stay the same',
    tag,
    guard: 'read',
    params: params.run,
    query: HunksQuery,
    answers: ok(FileHunks, 'In the order of their lines'),
    refuses: ['not_found', 'unprocessable', 'storage_unavailable'],
    answer: ({ session, caller, params: { runId }, query: { path } }) =>
      session.evidence.hunks(caller, runId, path),
  }),

  route({
    id: 'rejectRunChanges',
    method: 'post',
    path: '/v1/runs/{runId}/changes/reject',
    summary: 'Take the changes of files back, where they are proven and nothing has changed since',
    description:
      'Each file is an operation of a run of its own, decided by policy like every edit. Sent again it changes nothing, and says how far it is.',
    tag,
    guard: 'write',
    params: params.run,
    body: ChangeReject,
    idempotent: true,
    answers: accepted(ChangesRejected, 'File by file'),
    refuses: ['not_found', 'key_conflict', 'session_closed', 'wrong_state', 'unprocessable'],
    answer: ({ session, caller, params: { runId }, body, idempotencyKey }) =>
      session.evidence.reject(caller, runId, body, idempotencyKey),
  }),

  rawRoute({
    id: 'putEvidence',
    method: 'put',
    path: '/sandbox/{sessionId}/evidence/{collectId}',
    summary: 'The bundle of one collect; sent again it changes nothing',
    tag: 'sandbox',
    guard: 'sandbox',
    params: CollectParams,
    uploads: 'application/octet-stream',
    responses: { 200: openapiJson(BundleAnswer, 'Whether it was taken') },
    refuses: ['not_found', 'old_generation', 'other_session', 'too_large', 'storage_unavailable'],
    async respond({ session, sandbox, params: { collectId } }, c) {
      const text = new TextDecoder().decode(await readBody(c.req.raw, maxBundleBytes))
      return c.json(await session.evidence.takeBundle(sandbox, collectId, text), 200)
    },
  }),
]
