import { z } from '@hono/zod-openapi'
import { ErrorBody, type ErrorCode, errorTable } from '../../contract/error.ts'
import {
  ApprovalId,
  ArtifactId,
  AttemptId,
  CallerKey,
  ConfigurationId,
  ExecutionId,
  KeyId,
  MemberId,
  OperationId,
  RunId,
  SessionId,
  SkillId,
  SkillProposalId,
  TurnId,
} from '../../contract/ids.ts'
import { version } from '../../contract/version.ts'
import type { App } from './context.ts'
import { hoistedSchemas, prepareOpenApi } from './openapi-schemas.ts'

export const openapiJson = <T extends z.ZodType>(schema: T, description: string) => ({
  content: { 'application/json': { schema } },
  description,
})

/** The refusals that are particular to a route; every other one is described by `default`. */
export function openapiRefusals(...codes: ErrorCode[]) {
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].status)
  const rows = [...byStatus].map(([status, group]) => [
    String(status),
    openapiJson(ErrorBody, `Refused: ${group.join(', ')}`),
  ])
  return Object.fromEntries([...rows, ['default', openapiJson(ErrorBody, 'Refused')]]) as {
    default: ReturnType<typeof openapiJson<typeof ErrorBody>>
  }
}

export const params = {
  session: z.object({ sessionId: SessionId }),
  turn: z.object({ turnId: TurnId }),
  run: z.object({ runId: RunId }),
  approval: z.object({ approvalId: ApprovalId }),
  operation: z.object({ operationId: OperationId }),
  attempt: z.object({ attemptId: AttemptId }),
  execution: z.object({ executionId: ExecutionId }),
  artifact: z.object({ sessionId: SessionId, artifactId: ArtifactId }),
  key: z.object({ keyId: KeyId }),
  member: z.object({ memberId: MemberId }),
  configuration: z.object({ configurationId: ConfigurationId }),
  skill: z.object({ skillId: SkillId }),
  skillProposal: z.object({ proposalId: SkillProposalId }),
}

export const IdempotencyHeader = z.object({
  'idempotency-key': CallerKey.optional().describe('The same key gives the same answer, once'),
})

export function addOpenapiRoute(app: App): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'apiKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key (gk_…). A route names the scope that the key needs.',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'sandboxToken', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The token of a session’s sandbox.',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'operatorKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'The key of whoever runs the deployment (GANTRY_OPERATOR_KEY).',
  })
  // Made when it is first asked for: it costs milliseconds, which no other request should pay.
  let text: string | undefined
  app.get('/openapi.json', (c) => {
    text ??= JSON.stringify(documentOf(app))
    return c.body(text, 200, { 'content-type': 'application/json' })
  })
}

function documentOf(app: App): object {
  prepareOpenApi()
  const description = 'Control plane for OpenCode coding agents'
  const info = { title: 'Gantry', version, description }
  const { components, ...rest } = app.getOpenAPI31Document({ openapi: '3.1.0', info })
  const { document, schemas } = hoistedSchemas(rest)
  return { ...document, components: { ...components, schemas } }
}
