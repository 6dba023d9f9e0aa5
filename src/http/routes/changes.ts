import { z } from '@hono/zod-openapi'
import * as diffSchemas from '../../contract/diff.ts'
import { SessionDiff } from '../../contract/diff.ts'
import { SessionId, TurnId } from '../../contract/ids.ts'
import * as patchSchemas from '../../contract/patch.ts'
import { PatchRow } from '../../contract/patch.ts'
import { params } from '../kit/openapi.ts'
import { ok, rawRoute, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(diffSchemas, patchSchemas)

const tag = 'sessions'
const PatchParams = z.object({
  sessionId: SessionId,
  ofTurn: z.union([TurnId, z.literal('latest')]).describe('A turn, or "latest"'),
})

/** What a session has changed in its workspace: live, and as it was kept after each turn. */
export const changeRoutes = [
  route({
    id: 'getDiff',
    method: 'get',
    path: '/v1/sessions/{sessionId}/diff',
    summary: 'What the agent has changed in its workspace',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(SessionDiff, 'The diff'),
    refuses: ['not_found'],
    answer: ({ session, caller }) => session.changes.diff(caller),
  }),

  route({
    id: 'listPatches',
    method: 'get',
    path: '/v1/sessions/{sessionId}/patches',
    summary: 'List the patches that are kept, one for each turn that changed something',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(listSchema(PatchRow), 'All of them'),
    refuses: ['not_found'],
    answer: async ({ session, caller }) => ({
      items: await session.changes.patches(caller),
      nextCursor: null,
    }),
  }),

  rawRoute({
    id: 'downloadPatch',
    method: 'get',
    path: '/v1/sessions/{sessionId}/patches/{ofTurn}',
    summary: 'Download the work of a session up to the end of a turn, for "git apply"',
    tag,
    guard: 'read',
    params: PatchParams,
    responses: {
      200: {
        content: { 'text/x-diff': { schema: { type: 'string' } } },
        description: 'Against the files that the session began with',
      },
    },
    refuses: ['not_found'],
    async respond({ session, caller, params: { ofTurn } }, c) {
      const patch = await session.changes.patch(caller, ofTurn)
      return c.body(patch.text, 200, {
        'content-type': 'text/x-diff; charset=utf-8',
        'content-disposition': `attachment; filename="${patch.turnId}.patch"`,
        // It comes from a sandbox: a browser must neither guess its type nor run it in our origin.
        'content-security-policy': "sandbox; default-src 'none'",
      })
    },
  }),
]
