import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { applyMigrations } from '../../local/database/migrations.ts'
import { type Sqld, startSqld } from '../../local/database/sqld.ts'
import { loadLibsql } from '../fixtures/libsql-dump.ts'
import {
  type Deployment,
  deploy,
  fixtureOf,
  oldRelease,
  type Release,
  thisRelease,
  until,
} from '../support/release.ts'

// What release 0.1.0 has stored, opened by this release; by this one and 0.1.0 in turns; and by a 0.1.0 that was replaced.

const folder = fixtureOf('0.1.0')
const facts = JSON.parse(readFileSync(join(folder, 'facts.json'), 'utf8'))
const at = `/v1/sessions/${facts.sessionId}`
const scratch = mkdtempSync(join(tmpdir(), 'gantry-releases-'))
const open = new Set<Deployment>()
let old: Release
let libsql: Sqld
let folders = 0

beforeAll(async () => {
  old = await oldRelease('0.1.0')
  libsql = await startSqld({ stateDir: join(scratch, 'libsql') })
}, 60_000)
beforeEach(async () => {
  await loadLibsql(libsql, readFileSync(join(folder, 'libsql.sql'), 'utf8'))
  await applyMigrations(libsql.url, libsql.token)
})
afterEach(() => {
  for (const deployment of open) stop(deployment)
})
afterAll(async () => {
  await libsql?.stop()
  rmSync(scratch, { recursive: true, force: true })
})

/** The files of the fixture, for one test. */
function unpack(): string {
  const dataDir = join(scratch, String(folders++))
  for (const file of globSync('**/*.gz', { cwd: join(folder, 'data') })) {
    const path = join(dataDir, file.replace(/\.gz$/, ''))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, gunzipSync(readFileSync(join(folder, 'data', file))))
  }
  return dataDir
}

function start(release: Release, dataDir: string): Deployment {
  const deployment = deploy(release, { dataDir, libsql, now: () => facts.now })
  open.add(deployment)
  return deployment
}

function stop(deployment: Deployment): void {
  open.delete(deployment)
  deployment.close()
}

async function ok(deployment: Deployment, method: string, path: string, body?: unknown) {
  const { status, json, text } = await deployment.call(method, path, facts.key, body)
  expect([status, path, status < 300 ? '' : text]).toEqual([status, path, ''])
  return json
}

/** Every record as the release itself has answered it, but for what moves on by itself; there may be more by now. */
async function expectEverything(deployment: Deployment): Promise<void> {
  for (const [path, answer] of Object.entries(facts.answers)) {
    const found = await ok(deployment, 'GET', path)
    if (path.endsWith('/verify')) expect(found, path).toMatchObject({ ok: true, problems: [] })
    // The built-in document is each release's own.
    else if (isBuiltIn(answer)) expect(found, path).toMatchObject({ name: 'sandbox-default' })
    else expect(found, path).toEqual(atLeast(answer))
  }
}

const isBuiltIn = (answer: unknown) => (answer as { name?: unknown }).name === 'sandbox-default'

/** Changed by a link that is gone, by rows that are sent, by what the tests do. */
const moving = [
  'outbox',
  'sandbox',
  'sandboxState',
  'lastEventSeq',
  'lastUsedAt',
  'nextCursor',
].concat(['used', 'reserved', 'usage', 'evidence', 'updatedAt', 'nextAfter'])

function atLeast(value: unknown): unknown {
  if (Array.isArray(value)) return expect.arrayContaining(value.map(atLeast))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).filter(([name]) => !moving.includes(name))
  return expect.objectContaining(
    Object.fromEntries(fields.map(([name, inner]) => [name, atLeast(inner)])),
  )
}

async function callTool(deployment: Deployment, id: string, message = id) {
  const token = await deployment.token(facts.sessionId, facts.organisationId)
  const path = `/proliferate/${facts.sessionId}/tools/save_snapshot`
  const body = { tool_call_id: id, args: { message } }
  const { status, text } = await deployment.call('POST', path, token, body)
  expect([status, status === 200 ? '' : text]).toEqual([200, ''])
  return text
}

const versionIn = (dataDir: string, file: string) => {
  const db = new DatabaseSync(join(dataDir, file), { readOnly: true })
  try {
    return db.prepare('select version from _schema').get()?.['version']
  } finally {
    db.close()
  }
}
const sessionFile = `sessions/${facts.sessionId}.sqlite`

describe('[REL2] what release 0.1.0 has stored', () => {
  test('is answered as before: sessions, turns, events, calls, runs, approvals, limits, budgets', async () => {
    await expectEverything(start(thisRelease, unpack()))
  })

  test('goes on: timelines verify, a stored call is replayed, new calls, prompts and sessions work', async () => {
    const now = start(thisRelease, unpack())
    for (const id of facts.runs)
      expect(await ok(now, 'GET', `/v1/runs/${id}/verify`)).toMatchObject({
        ok: true,
        problems: [],
      })
    const { items } = facts.answers[`${at}/calls`]
    const stored = items.find(({ tool }: { tool: string }) => tool === 'save_snapshot')
    expect(await callTool(now, stored.toolCallId, 'half-way')).toContain(
      `snp_${stored.operationId.slice(3, 23)}`,
    )
    await callTool(now, 'new')
    await ok(now, 'POST', `${at}/prompts`, { text: 'Go on' })
    expect((await ok(now, 'POST', '/v1/sessions', { title: 'New' })).status).toBe('open')
    await until(async () => (await ok(now, 'GET', at)).outbox.pending === 0)
  })

  test('a limit and a budget that it had still hold', async () => {
    const now = start(thisRelease, unpack())
    expect((await ok(now, 'GET', '/v1/limits')).limits.concurrentSandboxes).toBe(7)
    const budget = await ok(now, 'GET', '/v1/budgets')
    expect(budget).toMatchObject({ limits: { toolCalls: 500, tokens: 1_000_000 } })
    await ok(now, 'PUT', `${at}/budget`, { toolCalls: 1 })
    const refused = await now.call('POST', `${at}/prompts`, facts.key, { text: 'More' })
    expect([refused.status, refused.json?.error?.code]).toEqual([409, 'budget_spent'])
  })
})

describe('[MBR4] the owners of keys that release 0.1.0 has made', () => {
  const ownersOf = async (deployment: Deployment) => {
    const { items } = await ok(deployment, 'GET', '/v1/keys?limit=200')
    return items as { owner: string; memberId: string }[]
  }

  test('are members, one for each name', async () => {
    const now = start(thisRelease, unpack())
    const members = (await ok(now, 'GET', '/v1/members')).items
    const keys = await ownersOf(now)
    expect(members.map(({ name }: { name: string }) => name).toSorted()).toEqual(
      [...new Set(keys.map(({ owner }) => owner))].toSorted(),
    )
    for (const { owner, memberId } of keys)
      expect(members).toContainEqual(
        expect.objectContaining({ id: memberId, name: owner, createdBy: null, disabledAt: null }),
      )
  })

  test('also those of keys that it makes after a roll-back; a disabled one stays so', async () => {
    const dataDir = unpack()
    const first = start(thisRelease, dataDir)
    const gone = await ok(first, 'POST', '/v1/members', { name: 'Gone' })
    await ok(first, 'POST', `/v1/members/${gone.id}/disable`)
    stop(first)
    const older = start(old, dataDir)
    const make = (owner: string) =>
      ok(older, 'POST', '/v1/keys', { name: owner, owner, scopes: ['admin'] })
    const [one, same, disabled] = [await make('New'), await make('New'), await make('Gone')]
    stop(older)
    const again = start(thisRelease, dataDir)
    const ids = (await ownersOf(again)).filter(({ owner }) => owner === 'New')
    expect(new Set(ids.map(({ memberId }) => memberId)).size).toBe(1)
    const status = async ({ secret }: { secret: string }) =>
      (await again.call('GET', '/v1/keys', secret)).status
    expect(await Promise.all([one, same, disabled].map(status))).toEqual([200, 200, 401])
  })
})

describe('[REL3] this release, then 0.1.0, then this release again', () => {
  test('every record stays readable for both, and what each has written is there for the other', async () => {
    const dataDir = unpack()
    const first = start(thisRelease, dataDir)
    await expectEverything(first)
    const answer = await callTool(first, 'by the newer')
    stop(first)

    const older = start(old, dataDir)
    await expectEverything(older)
    expect(await callTool(older, 'by the newer')).toBe(answer)
    await callTool(older, 'by the older')
    stop(older)
    expect(versionIn(dataDir, sessionFile)).toBe(7)

    const again = start(thisRelease, dataDir)
    await expectEverything(again)
    const { items } = await ok(again, 'GET', `${at}/calls?limit=100`)
    const ids = items.map(({ toolCallId }: { toolCallId: string }) => toolCallId)
    expect(ids).toEqual(expect.arrayContaining(['by the newer', 'by the older']))
    expect(await callTool(again, 'by the newer')).toBe(answer)
    await callTool(again, 'by the newer again')
    await until(async () => (await ok(again, 'GET', at)).outbox.pending === 0)
  })

  test('a session that this release has made is readable for 0.1.0, and after it', async () => {
    const dataDir = unpack()
    const first = start(thisRelease, dataDir)
    const { id } = await ok(first, 'POST', '/v1/sessions', { title: 'Made by the newer' })
    stop(first)
    const older = start(old, dataDir)
    expect(await ok(older, 'GET', `/v1/sessions/${id}`)).toMatchObject({ status: 'open' })
    await ok(older, 'POST', `/v1/sessions/${id}/close`, { reason: 'x' })
    stop(older)
    const again = start(thisRelease, dataDir)
    expect(await ok(again, 'GET', `/v1/sessions/${id}`)).toMatchObject({ status: 'closed' })
  })
})

describe('[REL4] databases that a newer release has changed for good', () => {
  const newer = (dataDir: string, file: string) => {
    const db = new DatabaseSync(join(dataDir, file))
    db.exec('update _ladder set applied = 1000, needs = 1000')
    db.close()
  }

  test('are refused with 503 and what to do, in the log by id, and unchanged; others go on', async () => {
    const dataDir = unpack()
    const before = start(thisRelease, dataDir)
    await expectEverything(before)
    stop(before)
    newer(dataDir, sessionFile)
    const bytes = readFileSync(join(dataDir, sessionFile))
    const now = start(thisRelease, dataDir)
    for (const [method, path, body] of [
      ['GET', at, undefined],
      ['GET', `${at}/events`, undefined],
      ['POST', `${at}/prompts`, { text: 'x' }],
      ['DELETE', at, undefined],
    ] as const) {
      const { status, json } = await now.call(method, path, facts.key, body)
      expect([status, json.error.code], path).toEqual([503, 'newer_release'])
      expect(json.error.message).toContain('Deploy the newer release again')
    }
    expect(now.logs.join('\n')).toContain(`Cannot open an object {"id":"${facts.sessionId}"`)
    expect(await ok(now, 'GET', `/v1/sessions/${facts.closedSessionId}`)).toBeTruthy()
    stop(now)
    expect(readFileSync(join(dataDir, sessionFile)).equals(bytes)).toBe(true)
  })

  test('of the organisation too; and with a wake index of a newer release the host does not start', async () => {
    const dataDir = unpack()
    const before = start(thisRelease, dataDir)
    await expectEverything(before)
    stop(before)
    newer(dataDir, `organisations/${facts.organisationId}.sqlite`)
    const now = start(thisRelease, dataDir)
    const { status, json } = await now.call('GET', '/v1/limits', facts.key)
    expect([status, json.error.code]).toEqual([503, 'newer_release'])
    stop(now)
    newer(dataDir, 'index.sqlite')
    expect(() => start(thisRelease, dataDir)).toThrow('Deploy the newer release again')
  })
})
