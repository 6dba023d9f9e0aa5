import { evalFiles } from '../support/eval-kit.ts'
import { request as httpRequest } from 'node:http'
import { SignJWT } from 'jose'
import type { SecretKey } from '../../src/adapters/secret-key.ts'
import { createTokens } from '../../src/adapters/tokens.ts'
import type { Scope } from '../../src/contract/key.ts'
import { tokenAudience, tokenIssuer } from '../../src/contract/token.ts'

export interface Answer {
  status: number
  headers: Record<string, string>
  text: string
}
export type Send = (
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string | Uint8Array,
) => Promise<Answer>

export interface GuardKitOptions {
  send: Send
  /** Admin keys of two organisations. */
  adminKey: string
  strangerKey: string
  /** The deployment's keys for sandbox tokens. */
  tokenKeys: SecretKey[]
  operatorKey: string
  /** Lets time pass where nothing else does. */
  live?: () => Promise<void>
}

export type GuardKit = Awaited<ReturnType<typeof createGuardKit>>

/** Everybody who may stand at a guard, and a session behind it whose sandbox has been replaced once. */
export async function createGuardKit({
  send,
  adminKey,
  strangerKey,
  tokenKeys,
  operatorKey,
  live = () => new Promise((resolve) => setTimeout(resolve, 100)),
}: GuardKitOptions) {
  const call = async (method: string, path: string, body?: object, key = adminKey) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const text = method === 'GET' ? undefined : JSON.stringify(body ?? {})
    const answer = await send(method, path, headers, text)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return (answer.text === '' ? null : JSON.parse(answer.text)) as Record<string, string>
  }
  const makeSession = () => call('POST', '/v1/sessions', { sandbox: 'none' })
  const makeLimited = async (owner: string, limits?: object) => {
    const key = { name: 'guard', owner, scopes: ['write', 'approve'], ...(limits && { limits }) }
    return (await call('POST', '/v1/keys', key))['secret'] as string
  }
  const makeKey = (...scopes: Scope[]) => call('POST', '/v1/keys', { name: 'guard', scopes })
  const askFor = async (runId: string) => {
    const operation = { category: 'edit', operation: 'write-file', targetPath: 'a', content: '' }
    const asked = await call('POST', `/v1/runs/${runId}/operations`, { operation })
    return asked as { id: string; approvalId: string }
  }
  const session = await makeSession()
  const sessionId = session['id'] as string
  const organisationId = session['organisationId'] as string
  const other = (await makeSession())['id'] as string
  await call('POST', `/v1/sessions/${sessionId}/replace`)
  const run = await call('POST', `/v1/sessions/${sessionId}/runs`, { intent: 'guards' })
  const runId = run['id'] as string
  const waiting = await askFor(runId)
  const { id: operationId, approvalId } = await askFor(runId)
  await call('PUT', '/v1/settings', { newKeysCount: true })
  const somebody = { name: 'guard', owner: 'somebody else', scopes: ['approve'] }
  const approver = (await call('POST', '/v1/keys', somebody))['secret'] as string
  const vote = { resolution: 'approved' }
  await call('POST', `/v1/approvals/${approvalId}/resolve`, vote, approver)
  await call('POST', `/v1/approvals/${approvalId}/resume`)
  const attempted = await call('GET', `/v1/operations/${operationId}`)
  const [attempt] = attempted['attempts'] as unknown as { id: string }[]
  const member = await call('POST', '/v1/members', { name: `guard ${sessionId}` })
  const agent = await call('PUT', '/v1/agents', { name: 'guard-agent' })
  const profile = await call('PUT', '/v1/profiles', { name: 'guard-agent' })
  const configuration = await call('POST', '/v1/configurations', { name: `guard ${sessionId}` })
  const memory = await call('POST', '/v1/memories', { title: 'guard', content: 'guarded' })
  const evalRun = await call('POST', '/v1/evals/runs', evalFiles(['a'], { a: '4' }))
  const isOver = async () => {
    await live()
    return (await call('GET', `/v1/evals/runs/${evalRun['id']}`))['endedAt'] !== null
  }
  while (!(await isOver()));
  await call('PUT', '/v1/evals/baselines', { evalRunId: evalRun['id'] })
  const promotion = await call('POST', '/v1/evals/promotions', {
    ...{ dataset: 'sums', kind: 'agent', name: 'guard-agent', sha256: 'a'.repeat(64), reason: 'r' },
  })
  const skill = await call('PUT', '/v1/skills', { name: 'guard', description: 'For the guards' })
  await call('POST', `/v1/skills/${skill['id']}/versions`, {
    source: { kind: 'inline', content: 'Look.' },
  })
  const proposal = await call('POST', `/v1/skills/${skill['id']}/proposals`, {
    source: { kind: 'inline', content: 'Look twice.' },
    rationale: 'Safer',
  })
  await call('PUT', '/v1/secrets/GUARD_SECRET', { value: 'known to its organisation' })
  const webhook = await call('POST', '/v1/webhooks', {
    url: 'https://example.com/',
    events: ['run.ended'],
    // No session is in it, so nothing is ever posted.
    project: 'no-such-project',
  })
  const revoked = await makeKey('admin')
  const remove = await send('DELETE', `/v1/keys/${revoked['id']}`, {
    authorization: `Bearer ${adminKey}`,
  })
  if (remove.status !== 204) throw new Error(`Cannot revoke a key: ${remove.text}`)

  const mint = async (id: string, generation: number, ageMs = 0) => {
    const tokens = createTokens(tokenKeys, () => Date.now() - ageMs)
    return (await tokens.mint({ sessionId: id, organisationId, generation })).token
  }
  const [signingKey] = tokenKeys as [SecretKey]
  const person = await new SignJWT({ org: organisationId, gen: 2, source: 'cli' })
    .setProtectedHeader({ alg: 'HS256', kid: signingKey.id })
    .setIssuer(tokenIssuer)
    .setAudience(tokenAudience)
    .setSubject(sessionId)
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(signingKey.secret)

  return {
    send,
    sessionId,
    adminKey,
    keyId: (await makeKey('read'))['id'] as string,
    memberId: member['id'] as string,
    agentId: agent['id'] as string,
    profileId: profile['id'] as string,
    configurationId: configuration['id'] as string,
    memoryId: memory['id'] as string,
    evalRunId: evalRun['id'] as string,
    promotionId: promotion['id'] as string,
    webhookId: webhook['id'] as string,
    skillId: skill['id'] as string,
    proposalId: proposal['id'] as string,
    runId,
    operationId,
    attemptId: attempt?.id ?? '',
    /** Asked for by the admin, and not answered. */
    approvalId: waiting.approvalId,
    approver,
    /** Where each of these must be refused, see guards.ts. */
    visitors: {
      nobody: undefined,
      'an unknown key': `gk_${'0'.repeat(32)}`,
      nonsense: 'nonsense',
      'a revoked key': revoked['secret'] as string,
      'an admin of another organisation': strangerKey,
      'an admin': adminKey,
      'the operator': operatorKey,
      'a key with read': (await makeKey('read'))['secret'] as string,
      'a key with write': (await makeKey('write'))['secret'] as string,
      'a key with write and approve': (await makeKey('write', 'approve'))['secret'] as string,
      'a key of another member': await makeLimited('guarded'),
      'a key of another project': await makeLimited('guarded', { projects: ['elsewhere'] }),
      'a key for own sessions': await makeLimited('guarded', { ownSessions: true }),
      'the sandbox': await mint(sessionId, 2),
      'the replaced sandbox': await mint(sessionId, 1),
      'the sandbox with an expired token': await mint(sessionId, 2, 3_700_000),
      'the replaced sandbox with an expired token': await mint(sessionId, 1, 3_700_000),
      'the sandbox of another session': await mint(other, 1),
      'a token that is not a sandbox’s': person,
    },
    async lastEventSeq() {
      const text = (
        await send('GET', `/v1/sessions/${sessionId}`, { authorization: `Bearer ${adminKey}` })
      ).text
      return (JSON.parse(text) as { lastEventSeq: number }).lastEventSeq
    },
  }
}

/** Over a real connection, because fetch may not send `upgrade`. */
export function sendTo(baseUrl: string): Send {
  return (method, path, headers, body) =>
    new Promise((resolve, reject) => {
      const request = httpRequest(new URL(path, baseUrl), { method, headers, agent: false })
      request.on('error', reject)
      request.on('upgrade', (response, socket) => {
        socket.destroy()
        resolve({ status: response.statusCode ?? 0, headers: {}, text: '' })
      })
      request.on('response', (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => (text += chunk))
        response.on('error', reject)
        response.on('end', () => {
          const entries = Object.entries(response.headers).map(([name, value]) => [
            name,
            String(value),
          ])
          resolve({ status: response.statusCode ?? 0, headers: Object.fromEntries(entries), text })
        })
      })
      request.end(body)
    })
}
