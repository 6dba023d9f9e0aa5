import { z } from '@hono/zod-openapi'
import {
  AbilityTaken,
  FoundAbilities,
  maxAbilityFolderBytes,
  PinnedFolder,
} from '../../contract/ability-folder.ts'
import { Sha256, UploadAnswer } from '../../contract/artifact.ts'
import { AppError } from '../../contract/error.ts'
import * as manifestSchemas from '../../contract/manifest.ts'
import { Manifest, SandboxEnv } from '../../contract/manifest.ts'
import * as tokenSchemas from '../../contract/token.ts'
import { TokenCreate, TokenCreated } from '../../contract/token.ts'
import { maxArtifactBytes } from '../../contract/tool.ts'
import { mintSandboxToken } from '../../core/verbs/mint-sandbox-token.ts'
import { storeUpload } from '../../core/verbs/store-upload.ts'
import { allowLargerBody, readBody } from '../kit/body.ts'
import { openapiJson, params } from '../kit/openapi.ts'
import { created, ok, rawRoute, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(manifestSchemas, tokenSchemas)

// Line ends and quotes take two bytes in JSON.
allowLargerBody(PinnedFolder, maxAbilityFolderBytes * 2)
allowLargerBody(FoundAbilities, 4 * 1024 * 1024)

const tag = 'sandbox'

export const sandboxRoutes = [
  route({
    id: 'getManifest',
    method: 'get',
    path: '/sandbox/{sessionId}/manifest',
    summary: 'What the sandbox is to contain',
    tag,
    guard: 'sandbox',
    params: params.session,
    answers: ok(Manifest, 'The manifest'),
    refuses: ['old_generation', 'other_session'],
    answer: ({ session, sandbox }) => session.agent.manifest(sandbox),
  }),

  route({
    id: 'getSandboxEnv',
    method: 'get',
    path: '/sandbox/{sessionId}/env',
    summary: 'The values that belong into the sandbox',
    tag,
    guard: 'sandbox',
    params: params.session,
    answers: ok(SandboxEnv, 'Values and files'),
    refuses: ['old_generation', 'other_session'],
    answer: ({ session, sandbox }) => session.agent.env(sandbox),
  }),

  route({
    id: 'getPinnedAbility',
    method: 'get',
    path: '/sandbox/{sessionId}/abilities/{hash}',
    summary: 'The folder of an ability that the session runs, as it was when it began',
    tag,
    guard: 'sandbox',
    params: params.session.extend({ hash: Sha256 }),
    answers: ok(PinnedFolder, 'Its files'),
    refuses: ['old_generation', 'other_session', 'not_found'],
    answer: ({ session, sandbox, params: { hash } }) => session.agent.abilityFolder(sandbox, hash),
  }),

  route({
    id: 'tellWorkspaceAbilities',
    method: 'put',
    path: '/sandbox/{sessionId}/abilities',
    summary: 'Tell which abilities lie in the workspace',
    tag,
    guard: 'sandbox',
    params: params.session,
    body: FoundAbilities,
    answers: ok(AbilityTaken, 'Taken'),
    refuses: ['old_generation', 'other_session'],
    async answer({ session, sandbox, body }) {
      await session.offers.tell(sandbox, body)
      return { taken: true }
    },
  }),

  route({
    id: 'sendWorkspaceAbility',
    method: 'put',
    path: '/sandbox/{sessionId}/abilities/{hash}',
    summary: 'Send the folder of an ability of the workspace that the session has asked for',
    tag,
    guard: 'sandbox',
    params: params.session.extend({ hash: Sha256 }),
    body: PinnedFolder,
    answers: ok(AbilityTaken, 'Taken'),
    refuses: ['old_generation', 'other_session', 'not_found', 'unprocessable'],
    async answer({ session, sandbox, params: { hash }, body }) {
      await session.offers.take(sandbox, hash, body)
      return { taken: true }
    },
  }),

  rawRoute({
    id: 'openLink',
    method: 'get',
    path: '/sandbox/{sessionId}/link',
    summary: 'The WebSocket between agent and session',
    description:
      'An expired token of the current generation is let in to be given a new one, for an hour after its end.',
    tag,
    guard: 'expired-sandbox',
    params: params.session,
    headers: z.object({ upgrade: z.string().optional() }),
    responses: { 101: { description: 'The WebSocket is open' } },
    refuses: ['invalid_request', 'old_generation', 'other_session'],
    // The answer holds the socket itself, so nothing may be added to it: a copy would lose the socket.
    async respond({ deps, session, sandbox, sessionId, headers }, c) {
      const { expiredAt, ...caller } = sandbox
      // First, so that an agent whose upgrade was refused can ask without one whether it may come in at all.
      await session.agent.authorise(caller, expiredAt)
      if (headers.upgrade?.toLowerCase() !== 'websocket') {
        throw new AppError('invalid_request', 'The link is a WebSocket: send "upgrade: websocket"')
      }
      return await deps.openLink(sessionId, sandbox, c.req.raw)
    },
  }),

  rawRoute({
    id: 'uploadArtifact',
    method: 'put',
    path: '/sandbox/{sessionId}/artifacts',
    summary: 'Upload the content of a file; it is stored by its hash',
    tag,
    guard: 'sandbox',
    params: params.session,
    uploads: 'application/octet-stream',
    responses: { 200: openapiJson(UploadAnswer, 'The hash and the size') },
    refuses: [
      'old_generation',
      'other_session',
      'too_large',
      'unprocessable',
      'storage_unavailable',
    ],
    async respond({ deps, sandbox, sessionId }, c) {
      const read = () => readBody(c.req.raw, maxArtifactBytes)
      return c.json(await storeUpload(deps, { ...sandbox, sessionId }, read), 200)
    },
  }),

  route({
    id: 'createSandboxToken',
    method: 'post',
    path: '/v1/sessions/{sessionId}/tokens',
    summary: 'Make a sandbox token for a session that was created without a sandbox',
    description: 'For programs that stand in for the sandbox, such as the conformance runner.',
    tag,
    guard: 'admin',
    params: params.session,
    body: TokenCreate,
    answers: created(TokenCreated, 'The token'),
    refuses: ['invalid_request', 'not_found', 'wrong_state'],
    answer: ({ deps, caller, params, body }) =>
      mintSandboxToken(deps, caller, params.sessionId, body),
  }),
]
