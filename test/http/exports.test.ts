import { createPublicKey, verify as verifyNative } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { verifyBundle, holds } from '../../local/verify/verify.ts'
import type { Envelope, PublicKeys, Statement } from '../../src/contract/export.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { secretKey } from '../support/keys.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const [old, fresh] = [secretKey('e1'), secretKey('e2')]
let app: TestApp
let key: string
let runId: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db, exportKeys: [fresh, old] })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const { json } = await app.call('POST', '/v1/runs', key, { intent: 'count the files' })
  runId = json.id as string
  for (const kind of ['verification.started', 'memory.read'])
    await app.call('POST', `/v1/runs/${runId}/events`, key, { kind, data: { b: 1, a: 'ä\n' } })
})

async function download(path: string, bearer = key) {
  const response = await app.app.request(path, { headers: { authorization: `Bearer ${bearer}` } })
  return { status: response.status, text: await response.text(), headers: response.headers }
}
const keysOf = async () =>
  (await (await app.app.request('/.well-known/gantry-keys.json')).json()) as PublicKeys

describe('GET /v1/runs/:id/bundle', () => {
  test('[EXP1] [EXP2] is a signed file with the timeline as it is stored', async () => {
    const { status, text, headers } = await download(`/v1/runs/${runId}/bundle`)
    expect([status, headers.get('content-type')]).toEqual([200, 'application/jsonl'])
    expect(headers.get('content-disposition')).toBe(`attachment; filename="${runId}.intoto.jsonl"`)
    const verified = await verifyBundle(text, (await keysOf()).keys)
    expect(holds(verified)).toBe(true)
    expect(verified).toMatchObject({ run: runId, counts: { run: 1, entry: 3 } })
    const stored = await libsql
      .db()
      .all<{ data: string }>('select data from run_events where run_id = ? order by seq', runId)
    const lines = text.split('\n')
    for (const { data } of stored)
      expect(lines.some((line) => line.includes(JSON.stringify(data)))).toBe(true)
  })

  test('[EXP1] the statement has the head with its number, policy and versions', async () => {
    const { text } = await download(`/v1/runs/${runId}/bundle?texts=hashes`)
    const envelope = JSON.parse(text.split('\n')[0] ?? '') as Envelope
    const statement = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as Statement
    expect(statement).toMatchObject({
      _type: 'https://in-toto.io/Statement/v1',
      predicateType: 'urn:gantry:run-bundle:v1',
      predicate: { formatVersion: 1, head: { entries: 3 }, records: 4, texts: 'hashes' },
    })
    expect(statement.predicate.policy.name).toBe('sandbox-default')
    expect(statement.predicate.versions.gantry).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('[EXP3] its signature is plain Ed25519 over DSSE, for whoever has other tools', async () => {
    const { text } = await download(`/v1/runs/${runId}/bundle`)
    const { payload, payloadType, signatures } = JSON.parse(text.split('\n')[0] ?? '') as Envelope
    const bytes = Buffer.from(payload, 'base64')
    const head = `DSSEv1 ${payloadType.length} ${payloadType} ${bytes.length} `
    const [first] = (await keysOf()).keys
    const publicKey = createPublicKey({ key: { ...first }, format: 'jwk' })
    const [signature] = signatures
    expect(signature?.keyid).toBe(first?.kid)
    const signed = Buffer.concat([Buffer.from(head), bytes])
    expect(verifyNative(null, signed, publicKey, Buffer.from(signature?.sig ?? '', 'base64'))).toBe(
      true,
    )
  })

  test('[EXP3] keys are public, and an older one still checks what it has signed', async () => {
    const { keys } = await keysOf()
    expect(keys).toHaveLength(2)
    for (const each of keys) {
      expect(Object.keys(each).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x'])
      expect(each.kid).toMatch(/^[\w-]{43}$/)
    }
    const before = createTestApp({ db: libsql.db, exportKeys: [old] })
    const owner = (await before.makeKey(await before.makeOrganisation(), 'admin')).secret
    const { json } = await before.call('POST', '/v1/runs', owner, { intent: 'x' })
    const response = await before.app.request(`/v1/runs/${json.id}/bundle`, {
      headers: { authorization: `Bearer ${owner}` },
    })
    expect(holds(await verifyBundle(await response.text(), keys))).toBe(true)
  })

  test('[EXP3] without a key nothing is exported, and the refusal says what to set', async () => {
    const bare = createTestApp({ db: libsql.db, exportKeys: [] })
    const owner = (await bare.makeKey(await bare.makeOrganisation(), 'admin')).secret
    const { json } = await bare.call('POST', '/v1/runs', owner, { intent: 'x' })
    const refused = await bare.call('GET', `/v1/runs/${json.id}/bundle`, owner)
    expect([refused.status, refused.json.error.code]).toEqual([503, 'not_configured'])
    expect(refused.json.error.message).toContain('GANTRY_EXPORT_KEYS')
    expect((await bare.call('GET', '/.well-known/gantry-keys.json')).json).toEqual({ keys: [] })
  })

  test('[EXP1] another organisation does not find it, and a wrong form is refused', async () => {
    const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    expect((await download(`/v1/runs/${runId}/bundle`, stranger)).status).toBe(404)
    expect((await download(`/v1/runs/${runId}/bundle?format=zip`)).status).toBe(400)
  })

  test('[EXP10] as an Agent Trace record and as a note of git-ai, with nothing that is not proven', async () => {
    const trace = await download(`/v1/runs/${runId}/bundle?format=agent-trace`)
    expect(JSON.parse(trace.text)).toMatchObject({
      version: '0.1.0',
      tool: { name: 'gantry' },
      files: [],
    })
    const note = await download(`/v1/runs/${runId}/bundle?format=git-ai`)
    const [, metadata = ''] = note.text.split('---\n')
    expect(JSON.parse(metadata)).toMatchObject({ schema_version: 'authorship/3.0.0', prompts: {} })
  })
})
