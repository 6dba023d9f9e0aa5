import { beforeAll, expect, test } from 'vitest'
import { AppError } from '../../src/contract/error.ts'
import type { UpMessage } from '../../src/contract/link.ts'
import type { SandboxInfo, SandboxSpec } from '../../src/core/ports.ts'
import type { SessionActor } from '../../src/core/session/session.ts'
import { createTestApp, type TestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { until } from '../support/release.ts'
import { MemorySandboxes } from '../support/memory-sandboxes.ts'

const libsql = useLibsql()
/** Put together here, so that no scanner takes this file for a leak. */
const alike = `ghp_${'aB3dE6gH9j'.repeat(4)}`
const known = 'hunter2-of-the-repository'
const reason = `because of ${alike} and of ${known}`

/** Those of a repository that does not exist fail at once, by their user's fault. */
class Sandboxes extends MemorySandboxes {
  override async create(spec: SandboxSpec): Promise<SandboxInfo> {
    if (spec.repository?.url.endsWith('/none'))
      throw new AppError('unprocessable', 'No such repository')
    return super.create(spec)
  }
}

let app: TestApp
let key: string
let approver: string
let organisationId: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db, sandboxes: new Sandboxes() })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  await call('PUT', '/v1/settings', { newKeysCount: true })
  const other = { name: 'k', owner: 'approver', scopes: ['approve'] }
  approver = (await call('POST', '/v1/keys', other)).secret as string
})

async function call(method: string, path: string, body?: unknown, credential = key) {
  const answer = await app.call(method, path, credential, body)
  expect([answer.status < 300, answer.json?.error]).toEqual([true, undefined])
  return answer.json
}

/** A session whose agent has said hello. */
async function begin(): Promise<Session> {
  const session = await create('some')
  await session.actor.receive(1, JSON.stringify(hello))
  return session
}
const hello: UpMessage = { t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true }

/** A session with a secret. */
async function create(name: string) {
  const repository = { url: `https://git.test/${name}`, token: known }
  const { id } = (await call('POST', '/v1/sessions', { repository })) as { id: string }
  return { id, at: `/v1/sessions/${id}`, actor: app.sessions.get(id) as SessionActor }
}
type Session = Awaited<ReturnType<typeof create>>

/** A session whose sandbox could not be made. */
async function beginInVain(): Promise<Session> {
  const session = await create('none')
  await until(async () => {
    await session.actor.runDue()
    return (await call('GET', session.at)).sandbox.state === 'failed'
  })
  return session
}

/** A run, and an operation of it that waits for an approval. */
async function asked(at: string) {
  const run = await call('POST', `${at}/runs`, { intent: 'x' })
  const operation = { category: 'shell', operation: 'run', command: 'rm -rf build' }
  const record = await call('POST', `/v1/runs/${run.id}/operations`, { operation })
  return { runId: run.id as string, operationId: record.id as string, apr: record.approvalId }
}

/** What is stored of the session, here and in libSQL. */
async function stored(id: string): Promise<string> {
  await app.settle()
  const sql = app.databaseOf(id)
  const tables = sql.all<{ name: string }>(`select name from sqlite_master where type = 'table'`)
  const rows = tables.map(({ name }) => sql.all(`select * from "${name}"`))
  const there = await Promise.all(
    ['sessions', 'runs', 'approvals'].map((name) =>
      libsql.db().all(`select * from ${name} where organisation_id = ?`, organisationId),
    ),
  )
  return JSON.stringify([rows, there])
}

/** Says it, and answers with what shows it. */
const ways: Record<string, (session: Session) => Promise<unknown>> = {
  'abort of a turn': async ({ at }) => {
    const { id } = await call('POST', `${at}/prompts`, { text: 'go' })
    const queued = await call('POST', `${at}/prompts`, { text: 'and go on' })
    await call('POST', `${at}/abort`, { reason })
    return [
      await call('GET', `/v1/turns/${id}`),
      await call('GET', `/v1/turns/${queued.id}`),
      await call('GET', `${at}/events`),
    ]
  },
  close: async ({ at }) => [
    await call('POST', `${at}/close`, { reason }),
    await call('GET', `${at}/events`),
  ],
  replace: async ({ at }) => [
    await call('POST', `${at}/replace`, { reason }),
    await call('GET', `${at}/events`),
  ],
  retry: async ({ at }) => [
    await call('POST', `${at}/retry`, { reason }),
    await call('GET', `${at}/events`),
  ],
  'correction of a session’s budget': async ({ at }) => [
    await call('POST', `${at}/budget/corrections`, { used: { tokens: 1 }, reason }),
    await call('GET', `${at}/events`),
  ],
  'change of a run': async ({ at }) => {
    const { id } = await call('POST', `${at}/runs`, { intent: 'x' })
    await call('PATCH', `/v1/runs/${id}`, { status: 'running', reason })
    return call('GET', `/v1/runs/${id}`)
  },
  'end of a run': async ({ at }) => {
    const { id } = await call('POST', `${at}/runs`, { intent: 'x' })
    await call('POST', `/v1/runs/${id}/finish`, { status: 'failed', reason })
    return call('GET', `/v1/runs/${id}`)
  },
  'answer to an approval': async ({ at }) => {
    const { runId, apr } = await asked(at)
    await call('POST', `/v1/approvals/${apr}/resolve`, { resolution: 'rejected', reason }, approver)
    return [await call('GET', `/v1/approvals/${apr}`), await call('GET', `/v1/runs/${runId}`)]
  },
  'revocation of an approval': async ({ at }) => {
    const { runId, apr } = await asked(at)
    const remember = { scope: 'run' }
    const approved = { resolution: 'approved', remember }
    await call('POST', `/v1/approvals/${apr}/resolve`, approved, approver)
    await call('POST', `/v1/approvals/${apr}/revoke`, { reason })
    return call('GET', `/v1/runs/${runId}`)
  },
  'abandoned attempt': async ({ at }) => {
    const { operationId, apr } = await asked(at)
    await call('POST', `/v1/approvals/${apr}/resolve`, { resolution: 'approved' }, approver)
    const { attempts } = await call('POST', `/v1/approvals/${apr}/resume`)
    await call('POST', `/v1/attempts/${attempts[0].id}/abandon`, { reason })
    return call('GET', `/v1/operations/${operationId}`)
  },
}

test.each(Object.keys(ways))(
  '[SEC9] [SEC10] the reason of this is kept and shown without what is or looks like a secret: %s',
  async (way) => {
    const session = await (way === 'retry' ? beginInVain() : begin())
    const shown = JSON.stringify(await ways[way]?.(session))
    expect(shown).toContain('because of [secret-like:github] and of [secret:repository]')
    const kept = shown + (await stored(session.id))
    expect(kept).not.toContain(alike)
    expect(kept).not.toContain(known)
  },
)

/** An organisation knows no session's secrets: only what looks like one can be told. */
const shared: Record<string, () => Promise<unknown>> = {
  'correction of the organisation’s budget': () =>
    call('POST', '/v1/budgets/corrections', { used: { tokens: 1 }, reason }),
  'kill switch of the organisation': async () => {
    await call('POST', '/v1/kill-switch', { on: true, reason })
    const shown = await call('GET', '/v1/kill-switch')
    await call('POST', '/v1/kill-switch', { on: false })
    return shown
  },
  'kill switch of the deployment': async () => {
    const path = '/v1/deployment/kill-switch'
    const shown = await call('POST', path, { on: true, reason }, testOperatorKey)
    await call('POST', path, { on: false }, testOperatorKey)
    return shown
  },
}

test.each(Object.keys(shared))(
  '[SEC10] the reason of this is kept and shown without what looks like a key: %s',
  async (way) => {
    const shown = JSON.stringify(await shared[way]?.())
    expect(shown).toContain('because of [secret-like:github]')
    await app.actorOf(organisationId).runDue()
    await app.settle()
    const told = JSON.stringify(await call('GET', '/v1/limits/actions'))
    expect(shown + told).not.toContain(alike)
  },
)
