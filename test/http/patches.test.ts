import { beforeAll, expect, test } from 'vitest'
import type { UpMessage } from '../../src/contract/link.ts'
import { patchChecksum } from '../../src/contract/patch.ts'
import { agentEvent } from '../support/agent.ts'
import { createTestApp, type TestApp, testOperatorKey } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { MemorySandboxes } from '../support/memory-sandboxes.ts'

const libsql = useLibsql()
const sandboxes = new MemorySandboxes()
const text = 'diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+é\n'
const leftOut = [{ path: 'lib', reason: 'A submodule: only its commit is here' }]
let app: TestApp
let key: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db, sandboxes })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

/** A session whose agent has ended one turn with this patch. */
async function worked(): Promise<{ sessionId: string; turnId: string }> {
  const sessionId = (await app.call('POST', '/v1/sessions', key, {})).json.id as string
  const say = (message: UpMessage) =>
    app.sessions.get(sessionId)?.receive(1, JSON.stringify(message))
  await say({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true })
  const prompted = await app.call('POST', `/v1/sessions/${sessionId}/prompts`, key, { text: 'go' })
  const turnId = prompted.json.id as string
  const [base, tree] = ['a'.repeat(40), 'b'.repeat(40)]
  const patch = { base, tree, files: 1, bytes: text.length, text, checksum: patchChecksum(text) }
  const diff = { patch: text, files: [], truncated: false, leftOut }
  const end = { turnId, state: 'completed', reason: null, text: 'done', diff, patch }
  await say({ t: 'events', items: [agentEvent(1, 'turn.ended', end)] })
  return { sessionId, turnId }
}

test('[SES15] patches are listed, and downloaded by turn or as the latest, as a text that no browser runs', async () => {
  const { sessionId, turnId } = await worked()
  const path = `/v1/sessions/${sessionId}/patches`
  expect((await app.call('GET', path, key)).json).toMatchObject({
    items: [{ turnId, generation: 1, state: 'whole', files: 1 }],
    nextCursor: null,
  })
  for (const name of [turnId, 'latest']) {
    const answer = await app.call('GET', `${path}/${name}`, key)
    expect([answer.status, answer.text]).toEqual([200, text])
    expect(answer.headers.get('content-type')).toBe('text/x-diff; charset=utf-8')
    expect(answer.headers.get('content-disposition')).toContain(`${turnId}.patch`)
    expect(answer.headers.get('content-security-policy')).toContain('sandbox')
  }
  for (const name of ['x', `trn_${'0'.repeat(38)}`])
    expect((await app.call('GET', `${path}/${name}`, key)).status).toBeGreaterThanOrEqual(400)
})

test('[SES18] a diff names what is in the workspace and not in it; without a diff there is nothing to name', async () => {
  const { sessionId } = await worked()
  const { json } = await app.call('GET', `/v1/sessions/${sessionId}/diff`, key)
  expect(json).toMatchObject({ patch: text, leftOut })
  const fresh = (await app.call('POST', '/v1/sessions', key, {})).json.id as string
  const none = await app.call('GET', `/v1/sessions/${fresh}/diff`, key)
  expect(none.json).toMatchObject({ at: null, leftOut: [] })
})

test('[SES15] [SES4] another organisation finds neither list nor patch', async () => {
  const { sessionId, turnId } = await worked()
  const other = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  for (const path of ['patches', `patches/${turnId}`, 'patches/latest'])
    expect((await app.call('GET', `/v1/sessions/${sessionId}/${path}`, other)).status).toBe(404)
})

test('[FIRE24] the operator’s key, and no other, puts everything to sleep', async () => {
  const path = '/v1/deployment/sleep'
  for (const credential of [undefined, key, 'nonsense'])
    expect((await app.call('POST', path, credential)).status).toBe(401)
  const answer = await app.call('POST', path, testOperatorKey)
  expect([answer.status, answer.json]).toEqual([200, { left: 0 }])
})
