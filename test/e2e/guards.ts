import { beforeAll, describe, expect, test } from 'vitest'
import { type ErrorCode, errorTable } from '../../src/contract/error.ts'
import type { Scope } from '../../src/contract/key.ts'
import type { GuardKit } from './guard-kit.ts'
import { loadRoutes, type Route } from './routes.ts'
import { evalFiles } from '../support/eval-kit.ts'
import { baseFixture } from '../support/proof-fixtures.ts'

type Visitor = keyof GuardKit['visitors']

/** Routes without a session that limited keys may enter, since they show only what is within the limits. */
const obeyed: readonly string[] = [
  'GET /v1/abilities',
  'GET /v1/abilities/:name',
  'GET /v1/abilities/:name/versions',
  'GET /v1/agents',
  'PUT /v1/agents',
  'POST /v1/agents/resolve',
  'GET /v1/agents/shipped',
  'POST /v1/agents/shipped',
  'GET /v1/approvals',
  'GET /v1/changes/:change/workflow',
  'GET /v1/configurations',
  'GET /v1/evals/baselines',
  'GET /v1/evals/promotions',
  'POST /v1/evals/promotions',
  'GET /v1/evals/runs',
  'POST /v1/evals/runs',
  'GET /v1/models',
  'GET /v1/policies/:name',
  'GET /v1/profiles',
  'PUT /v1/profiles',
  'GET /v1/providers',
  'GET /v1/runs',
  'POST /v1/runs',
  'GET /v1/sessions',
  'POST /v1/sessions',
  'GET /v1/skill-proposals',
  'GET /v1/skills',
  'PUT /v1/skills',
  'POST /v1/skills/payload',
  'POST /v1/skills/resolve',
  'GET /v1/usage',
]

/** What cannot be undone is for the member that made the session, and for admins. */
const destructive: readonly string[] = [
  'POST /v1/attempts/:attemptId/discard',
  'DELETE /v1/evals/runs/:evalRunId',
  'POST /v1/evals/runs/:evalRunId/cancel',
  'DELETE /v1/sessions/:sessionId',
  'POST /v1/sessions/:sessionId/close',
  'POST /v1/sessions/:sessionId/replace',
]

/** Ids that lead to a session. */
const ofSession =
  /:(session|turn|run|approval|operation|attempt|execution)Id|^\/v1\/(abilities\/:name\/plan|evals\/from-run)$/

/** How keys are refused whose limits the session in the path is outside of. */
function limitedRefusals({ method, path }: Route, scope: Scope): Refusals {
  const both = (code: ErrorCode): Refusals => ({
    'a key of another project': code,
    'a key for own sessions': code,
  })
  if (scope === 'admin') return both('forbidden')
  if (ofSession.test(path) || path.includes(':evalRunId')) return both('not_found')
  if (/^\/v1\/(agents|profiles)\/(:|by-name\/)/.test(path))
    return { 'a key of another project': 'not_found' }
  if (`${method} ${path}` === 'GET /v1/configurations/:configurationId')
    return { 'a key of another project': 'not_found' }
  if (
    [
      '/v1/abilities/validate',
      '/v1/evals/validate',
      '/v1/evals/compare',
      '/v1/evidence/evaluate',
    ].includes(path)
  )
    return {}
  if (path.startsWith('/v1/memories/:memoryId')) return { 'a key of another project': 'not_found' }
  if (/^\/v1\/(changes|memories)/.test(path) && path !== '/v1/changes/:change/workflow')
    return { 'a key of another project': 'forbidden' }
  if (path.includes(':promotionId')) return { 'a key of another project': 'not_found' }
  if (path.startsWith('/v1/skills/:') || path.startsWith('/v1/skill-proposals/:'))
    return { 'a key of another project': 'not_found' }
  if (method !== 'GET' && obeyed.includes(`${method} ${path}`))
    return { 'a key of another project': 'forbidden' }
  return obeyed.includes(`${method} ${path}`) ? {} : both('forbidden')
}

type Refusals = Partial<Record<Visitor, ErrorCode>>

/** Who is refused at a route, and how. Whoever is not named may come in, or is not of interest. */
export function refusalsAt(route: Route): Refusals {
  const { path, guard } = route
  if (guard.kind === 'public') return {}
  const strangers: Refusals = {
    nobody: 'unauthenticated',
    'an unknown key': 'unauthenticated',
    nonsense: 'unauthenticated',
    'a revoked key': 'unauthenticated',
  }
  if (guard.kind === 'key') {
    return {
      ...strangers,
      'the sandbox': 'forbidden',
      'the replaced sandbox': 'forbidden',
      'the sandbox with an expired token': 'token_expired',
      'a token that is not a sandbox’s': 'forbidden',
      // The names of providers and changes are everybody's; what is behind them is each organisation's own.
      ...(path.includes(':') && !/^\/v1\/(providers|changes)\//.test(path)
        ? { 'an admin of another organisation': 'not_found' }
        : {}),
      ...limitedRefusals(route, guard.scope),
      ...(destructive.includes(`${route.method} ${path}`)
        ? { 'a key of another member': 'forbidden' }
        : {}),
      ...(guard.scope === 'read' ? {} : { 'a key with read': 'forbidden' }),
      ...(guard.scope === 'approve' ? { 'a key with write': 'forbidden' } : {}),
      ...(guard.scope === 'admin' ? { 'a key with write and approve': 'forbidden' } : {}),
      // Who asked does not approve, neither with that key nor with another one of the same owner.
      ...(path.endsWith('approvalId/resolve')
        ? { 'an admin': 'forbidden', 'a key with write and approve': 'forbidden' }
        : {}),
    }
  }
  if (guard.kind === 'operator') {
    return { ...strangers, 'an admin': 'unauthenticated', 'the sandbox': 'unauthenticated' }
  }
  const isLink = path.endsWith('/link')
  return {
    ...strangers,
    'an admin': 'not_sandbox',
    'an admin of another organisation': 'not_sandbox',
    'a token that is not a sandbox’s': 'not_sandbox',
    'the replaced sandbox': 'old_generation',
    // The link is where a new token comes from, for the current generation only.
    'the replaced sandbox with an expired token': isLink ? 'old_generation' : 'token_expired',
    ...(isLink ? {} : { 'the sandbox with an expired token': 'token_expired' }),
    ...(path.includes(':sessionId') ? { 'the sandbox of another session': 'other_session' } : {}),
  }
}

const routes = await loadRoutes()

/** Every route x everybody who must not come in. */
export function guardSuite(host: string, open: () => GuardKit): void {
  // In order: what was refused must have changed nothing before somebody is let in.
  describe(`guards on ${host}`, { shuffle: false }, () => {
    let eventsBefore: number
    beforeAll(async () => {
      eventsBefore = await open().lastEventSeq()
    })

    for (const route of routes) {
      const refusals = Object.entries(refusalsAt(route)) as [Visitor, ErrorCode][]
      const title = `${route.method} ${route.path}`
      if (route.guard.kind === 'public') {
        test(`[AUTH] ${title} is public`, async () => {
          expect((await visit(open(), route, 'nobody')).status).toBe(200)
        })
        continue
      }
      test(`[AUTH] [MBR7] [MBR8] [MBR10] ${title} refuses everybody else`, async () => {
        const answers = await Promise.all(
          refusals.map(
            async ([visitor]) => [visitor, await visit(open(), route, visitor)] as const,
          ),
        )
        const seen = answers.map(([visitor, { status, text }]) => [visitor, status, codeOf(text)])
        const wanted = refusals.map(([visitor, code]) => [visitor, errorTable[code].status, code])
        expect(seen).toEqual(wanted)
        for (const [, { headers }] of answers) expect(headers['x-request-id']).toMatch(/^req_/)
      })
    }

    test('[AUTH] nobody who was refused has changed anything', async () => {
      expect(await open().lastEventSeq()).toBe(eventsBefore)
    })

    test('[APR4] [APR2] what was refused to everybody else can be resolved by another owner, once', async () => {
      const { send, approvalId, approver } = open()
      const headers = { authorization: `Bearer ${approver}`, 'content-type': 'application/json' }
      const resolve = (resolution: string) =>
        send('POST', `/v1/approvals/${approvalId}/resolve`, headers, JSON.stringify({ resolution }))
      expect((await resolve('approved')).status).toBe(200)
      expect((await resolve('rejected')).status).toBe(409)
    })
  })
}

function visit(kit: GuardKit, route: Route, visitor: Visitor) {
  const credential = kit.visitors[visitor]
  const headers: Record<string, string> = {}
  if (credential !== undefined) headers['authorization'] = `Bearer ${credential}`
  if (route.path.endsWith('/link')) {
    Object.assign(headers, {
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-version': '13',
    })
  }
  if (route.method === 'GET') return kit.send('GET', fillPath(kit, route.path), headers)
  headers['content-type'] = 'application/json'
  return kit.send(route.method, fillPath(kit, route.path), headers, goodBody(kit, route.path))
}

const importedChange = JSON.stringify({
  changes: [
    {
      event: {
        ...{ schemaVersion: 1, eventId: 'e', taskId: 't', taskRef: 't', taskRefKind: 'canonical' },
        ...{ phase: 'work', executionSeq: 0, sessionId: 's', memberName: 'm', toolUseId: 'u' },
        ...{ source: 'other', operation: 'modify', confidence: 'low', workspaceRoot: '/w' },
        ...{
          filePath: 'a',
          relativePath: 'a',
          timestamp: '2026-01-01T00:00:00Z',
          toolStatus: null,
        },
        ...{ before: null, after: null, beforeState: {}, afterState: {}, relation: null },
        ...{ oldString: null, newString: null, linesAdded: null, linesRemoved: null },
        ...{ sourceRuntime: 'r', sourceProvider: 'p', sourceSessionId: null, sourcePartId: null },
        ...{ sourceMessageId: null, parentUserMessageId: null, attributionMethod: 'a' },
        ...{ sourceImportKey: null, evidenceProof: 'x', snapshotId: null, snapshotSource: null },
        ...{ shapeFingerprint: null, supersedesEventId: null, warnings: [] },
      },
    },
  ],
})

const sha = 'a'.repeat(64)
const emptySide = { runId: 'a', target: 't', suiteDigest: 'd', cases: [], rows: [] }

/** A body that would be taken, so that a refusal is the guard's. */
export function goodBody(
  {
    configurationId,
    evalRunId,
    runId,
    sessionId,
  }: Pick<GuardKit, 'configurationId' | 'evalRunId' | 'runId' | 'sessionId'>,
  path: string,
): string {
  if (path.endsWith('/tools/:toolName')) return '{"tool_call_id":"guard","args":{}}'
  if (path.endsWith('/skills') && path.includes('runId'))
    return JSON.stringify({ skillId: `skl_${'0'.repeat(20)}`, outcome: 'helped' })
  if (path === '/sandbox/:sessionId/abilities') return '{"found":[],"problems":[]}'
  if (path === '/sandbox/:sessionId/abilities/:hash') return '{"files":[]}'
  if (path === '/v1/abilities') return '{"files":[{"path":"a.yaml","content":""}]}'
  if (path === '/v1/abilities/:name/plan') return JSON.stringify({ sessionId })
  if (path.endsWith('/executions')) return '{"ability":"a"}'
  if (path.endsWith('executionId/resume')) return '{"stepId":"a","answer":"stop"}'
  if (path === '/v1/abilities/validate') return '{"source":""}'
  if (path === '/v1/evals/from-run') return JSON.stringify({ runId })
  if (path === '/v1/evals/compare')
    return JSON.stringify({ baseline: emptySide, candidate: emptySide })
  if (path === '/v1/evals/baselines') return JSON.stringify({ evalRunId })
  if (path === '/v1/evals/promotions')
    return JSON.stringify({ dataset: 'd', kind: 'agent', name: 'a', sha256: sha, reason: 'r' })
  if (path.endsWith('promotionId/resolve'))
    return JSON.stringify({ resolution: 'rejected', sha256: sha, reason: 'r' })
  if (path === '/v1/evals/runs') return JSON.stringify(evalFiles(['a'], { a: '4' }))
  if (path === '/v1/evals/validate') return '{"files":[{"path":"a.yaml","content":""}]}'
  if (path.endsWith('/runs')) return '{"intent":"i"}'
  if (path === '/v1/runs/:runId/events') return '{"kind":"memory.read"}'
  if (path.endsWith('/preflight') || /\/operations(\/plan)?$/.test(path))
    return '{"operation":{"category":"read","operation":"read-file","targetPath":"a"}}'
  if (path.endsWith('/abandon') || path.endsWith('/revoke')) return '{"reason":"r"}'
  if (path.endsWith('proposalId/resolve'))
    return JSON.stringify({ resolution: 'rejected', hash: 'a'.repeat(64), reason: 'r' })
  if (path.endsWith('proposalId/cancel') || path.endsWith('proposalId/apply'))
    return '{"reason":"r"}'
  if (path.endsWith('/proposals'))
    return '{"source":{"kind":"inline","content":"c"},"rationale":"r"}'
  if (path.endsWith('Id/resolve')) return '{"resolution":"approved"}'
  if (path === '/v1/runs/:runId') return '{"status":"planned"}'
  if (path.endsWith('/finish')) return '{"status":"cancelled"}'
  if (path.endsWith('/checkpoints')) return '{"label":"l","state":1}'
  if (path === '/v1/runs/:runId/changes/import') return importedChange
  if (path.endsWith('/changes/accept') || path.endsWith('/changes/reject')) return '{"all":true}'
  if (path.endsWith('/prompts')) return '{"text":"hello"}'
  if (path.endsWith('/env')) return '{"values":[{"key":"A","value":"v"}]}'
  if (path.endsWith('/corrections')) return '{"used":{"tokens":0},"reason":"r"}'
  if (path.endsWith('/tokens')) return '{"lifetimeSeconds":60}'
  if (path === '/v1/memories') return '{"title":"t","content":"c"}'
  if (path === '/v1/memories/import') return '{"memories":[{"title":"t","content":"c"}]}'
  if (path === '/v1/changes/import')
    return '{"artifacts":[{"change":"c","phase":"explore","content":"c"}]}'
  if (path === '/v1/changes/:change/phases/:phase') return '{"content":"c"}'
  if (path === '/v1/changes/:change/phases/:phase/approvals')
    return JSON.stringify({ sha256: '0'.repeat(64) })
  if (path === '/v1/evidence/evaluate') return JSON.stringify(baseFixture)
  if (path === '/v1/budgets') return '{"limits":{}}'
  if (path.endsWith('/corrections')) return '{"used":{"tokens":1},"reason":"r"}'
  if (path === '/v1/profiles') return '{"name":"guard-agent"}'
  if (path === '/v1/agents') return '{"name":"guard-agent"}'
  if (path === '/v1/members') return '{"name":"n"}'
  if (path === '/v1/settings') return '{"newKeysCount":false}'
  if (path === '/v1/keys') return '{"name":"n","scopes":["read"]}'
  if (path === '/v1/skills') return '{"name":"n","description":"d"}'
  if (path === '/v1/skills/:skillId/versions') return '{"source":{"kind":"inline","content":"c"}}'
  if (path === '/v1/skills/:skillId/versions/:version/state')
    return '{"state":"archived","reason":"r"}'
  if (path.endsWith('/rollback')) return '{"version":1,"reason":"r"}'
  if (path === '/v1/configurations') return '{"name":"n"}'
  // One's own names are free to everybody, so a stranger is met at the configuration.
  if (path === '/v1/secrets/:name') return JSON.stringify({ value: 'v', configurationId })
  if (path === '/v1/providers/e2b/credentials') return '{"apiKey":"e2b_of_the_door"}'
  if (path === '/v1/providers/modal/credentials')
    return '{"url":"https://example.com","secret":"of the guard"}'
  return '{}'
}

/** With things that are there, so that a stranger's not-found is the guard's. */
export function fillPath(kit: GuardKit, path: string): string {
  const values: Record<string, string> = {
    sessionId: kit.sessionId,
    turnId: `trn_${kit.sessionId.slice(4)}${'0'.repeat(8)}`,
    runId: kit.runId,
    approvalId: kit.approvalId,
    operationId: kit.operationId,
    attemptId: kit.attemptId,
    executionId: `exe_${kit.sessionId.slice(4)}${'0'.repeat(8)}`,
    artifactId: `art_${'0'.repeat(20)}`,
    keyId: kit.keyId,
    memberId: kit.memberId,
    agentId: kit.agentId,
    profileId: kit.profileId,
    revision: '1',
    configurationId: kit.configurationId,
    webhookId: kit.webhookId,
    collectId: `col_${kit.sessionId.slice(4)}${'0'.repeat(8)}`,
    sha256: '0'.repeat(64),
    hash: '0'.repeat(64),
    name: nameIn(path),
    skillId: kit.skillId,
    proposalId: kit.proposalId,
    version: '1',
    targetType: 'agent',
    targetKey: 'a',
    memoryId: kit.memoryId,
    evalRunId: kit.evalRunId,
    promotionId: kit.promotionId,
    change: 'guarded',
    phase: 'explore',
    toolName: 'verify',
    provider: 'litellm',
    path: 'chat/completions',
  }
  const query = path === '/v1/memories/search' ? '?query=x' : ''
  return (
    path.replaceAll(/:(\w+)(\{[^}]+\})?/g, (_, name: string) => values[name] ?? `no-${name}`) +
    query
  )
}

function nameIn(path: string): string {
  if (path.startsWith('/v1/providers/')) return 'e2b'
  return /^\/v1\/(agents\/|profiles\/|abilities\/:name\/plan$)/.test(path)
    ? 'guard-agent'
    : 'GUARD_SECRET'
}

function codeOf(text: string): string {
  try {
    return (JSON.parse(text) as { error: { code: string } }).error.code
  } catch {
    return `no envelope: ${text.slice(0, 100)}`
  }
}
