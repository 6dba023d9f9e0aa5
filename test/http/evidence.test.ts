import { beforeAll, describe, expect, test } from 'vitest'
import type { ProofMode } from '../../src/contract/evidence.ts'
import type { ProofEvaluation } from '../../src/contract/proof-fixture.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { baseFixture, edit, file } from '../support/proof-fixtures.ts'
import { positives } from '../support/proof-table.ts'

const libsql = useLibsql()
const apps = new Map<ProofMode, { app: TestApp; key: string }>()
beforeAll(async () => {
  for (const proofMode of ['full', 'shadow'] as const) {
    const app = createTestApp({ db: libsql.db, proofMode })
    const { secret } = await app.makeKey(await app.makeOrganisation(), 'read')
    apps.set(proofMode, { app, key: secret })
  }
})

type Answer = ProofEvaluation & { error: { code: string; details: unknown[] } }

async function evaluate(body: unknown, set: ProofMode = 'full') {
  const { app, key } = apps.get(set) ?? expect.fail('No app')
  const { status, json } = await app.call('POST', '/v1/evidence/evaluate', key, body)
  return { status, body: json as Answer }
}

describe('POST /v1/evidence/evaluate', () => {
  test('[EVD20] decides on a fixture, says whether it is as expected, and stores nothing', async () => {
    const tables = await rowsOfAllTables()
    const expected = { upgraded: 1, metadataOnly: 0, diagnostics: [] }
    const { status, body } = await evaluate({ ...baseFixture, expected })
    expect(status).toBe(200)
    expect(body).toMatchObject({ mode: 'full', upgraded: 1, asExpected: true })
    expect(body.statistics.attemptedChanges).toBe(1)
    expect(await rowsOfAllTables()).toEqual(tables)
  })

  test('[EVD20] [POL36] so many files in so many windows are refused at once, and the most that pass take moments', async () => {
    const windows = (count: number) =>
      Array.from({ length: count }, (_, n) => ({
        ...{ messageId: 'a', windowId: `w${n}`, fromSnapshot: `s${n}`, toSnapshot: `s${n + 1}` },
        ...{ startPartOrder: n * 1000, finishPartOrder: n * 1000 + 999 },
      }))
    const files = Array.from({ length: 1000 }, (_, n) =>
      file('aaaa', 'bbb', { relativePath: `f${n}` }),
    )
    const most = {
      ...baseFixture,
      windows: windows(200),
      snapshotFiles: files,
      expected: undefined,
    }
    const { status, body } = await evaluate(most)
    expect([status, body.error.details]).toMatchObject([400, [{ path: 'snapshotFiles' }]])
    const before = process.threadCpuUsage()
    expect((await evaluate({ ...most, windows: windows(2) })).status).toBe(200)
    expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(2000)
  })

  test('[EVD20] [POL36] a large file counts in every window that it is one of', async () => {
    const windows = Array.from({ length: 200 }, (_, n) => ({
      ...{ messageId: 'a', windowId: `w${n}`, fromSnapshot: `s${n}`, toSnapshot: `s${n + 1}` },
      ...{ startPartOrder: n * 1000, finishPartOrder: n * 1000 + 999 },
    }))
    const large = file('a'.repeat(20_000), 'b'.repeat(30_000), { relativePath: 'large' })
    const fixture = { ...baseFixture, windows, snapshotFiles: [large] }
    const { status, body } = await evaluate(fixture)
    expect([status, body.error.details]).toMatchObject([400, [{ path: 'snapshotFiles' }]])
    const named = { ...fixture, snapshotFiles: [{ ...large, windowId: 'w7' }] }
    expect((await evaluate(named)).status).toBe(200)
    expect((await evaluate({ ...fixture, windows: windows.slice(0, 100) })).status).toBe(200)
  })

  test('[EVD5] [EVD6] [EVD11] each proven fixture is proven, and each of its twins stays what it is in every mode', async () => {
    for (const { name, over, operation, proof = 'opencode-snapshot', twins } of positives) {
      const base = { ...baseFixture, expected: undefined, ...over }
      const { body } = await evaluate(base)
      expect([name, body.events]).toMatchObject([name, [{ operation, evidenceProof: proof }]])
      for (const { name: twin, over: one, reason, rule } of twins) {
        const merged = { ...base, ...one }
        const off = (await evaluate({ ...merged, mode: 'off' })).body
        const full = (await evaluate(merged)).body
        const found = full.decisions.find(({ partId }) => partId === 'part-1')
        expect([rule, name, twin, found]).toMatchObject([rule, name, twin, { reason }])
        expect([rule, name, twin, full.events]).toEqual([rule, name, twin, off.events])
      }
    }
  })

  test('[EVD20] its mode lowers the deployment’s and never raises it', async () => {
    expect((await evaluate({ ...baseFixture, mode: 'full' }, 'shadow')).body).toMatchObject({
      mode: 'shadow',
      upgraded: 0,
      wouldUpgrade: 1,
    })
    expect((await evaluate({ ...baseFixture, mode: 'off' })).body).toMatchObject({ mode: 'off' })
  })

  test('[EVD20] what is expected and does not come is told', async () => {
    const diagnostics = ['snapshot-upgrade-skipped/edit-ambiguous']
    const fixture = { ...baseFixture, expected: { upgraded: 0, metadataOnly: 1, diagnostics } }
    expect((await evaluate(fixture)).body.asExpected).toBe(false)
    const twice = [file('value = 1 value = 1', 'value = 2 value = 1')]
    expect((await evaluate({ ...fixture, snapshotFiles: twice })).body.asExpected).toBe(true)
  })

  test('[EVD20] the disk is named and never used', async () => {
    const files = [file(undefined, 'const value = 2\n', { currentContent: 'const value = 1\n' })]
    const { body } = await evaluate({ ...baseFixture, snapshotFiles: files })
    expect(body.upgraded).toBe(0)
    expect(body.diagnostics).toContain(
      'snapshot-upgrade-skipped/current-disk-not-proof: src/app.ts',
    )
  })

  test('[EVD20] a refusal names the field and holds no content', async () => {
    const canary = 'canary-51c9'
    const wrong: unknown[] = [
      { ...baseFixture, mode: canary },
      { ...baseFixture, parts: [{ ...edit(), oldString: 7, newString: canary }] },
      { ...baseFixture, snapshotFiles: [{ ...file(canary, canary), afterMode: canary }] },
      { ...baseFixture, disk: canary },
    ]
    for (const body of wrong) {
      const answer = await evaluate(body)
      expect(answer.status).toBe(400)
      expect(answer.body.error.details.length).toBeGreaterThan(0)
      expect(JSON.stringify(answer.body)).not.toContain('canary')
    }
  })

  test('[EVD20] a body over 1 MiB is too large', async () => {
    const large = 'a'.repeat(600 * 1024)
    const answer = await evaluate({ ...baseFixture, snapshotFiles: [file(large, large)] })
    expect([answer.status, answer.body.error.code]).toEqual([413, 'too_large'])
  })
})

async function rowsOfAllTables(): Promise<Record<string, number>> {
  const tables = await libsql
    .db()
    .all<{ name: string }>(`select name from sqlite_master where type = 'table'`)
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const [row] = await libsql.db().all<{ n: number }>(`select count(*) as n from "${name}"`)
    counts[name] = row?.n ?? 0
  }
  return counts
}
