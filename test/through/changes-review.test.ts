import { describe, expect, test } from 'vitest'
import { ChangeScene, edit, sha256, type Step } from '../support/changes-kit.ts'
import { useHost } from '../support/host.ts'
import { report } from '../support/run-world.ts'

// How the reject of a file can end, and what of a run can be rejected at all.

const host = useHost()
const cheer = edit('a.txt', 'hello world\n', 'world', 'moon')

async function collected(steps: readonly Step[] = [cheer], body: object = {}) {
  const scene = await ChangeScene.begin(host(), steps, body)
  await scene.tell()
  await scene.collect()
  return scene
}

const at = ({ turn }: ChangeScene, verb: string) => `/v1/runs/${turn.runId}/changes/${verb}`
const reject = async (scene: ChangeScene, body: object = { all: true }) =>
  (await host().ok('POST', at(scene, 'reject'), body)).files[0]
const resolve = async ({ approvalId }: { approvalId: string }, resolution: string) => {
  const approver = await host().newApprover(`approver of ${approvalId}`)
  const path = `/v1/approvals/${approvalId}/resolve`
  await host().ok('POST', path, { resolution, reason: 'because' }, approver)
}
const approve = async (file: { approvalId: string }) => {
  await resolve(file, 'approved')
  await host().ok('POST', `/v1/approvals/${file.approvalId}/resume`, {})
  await host().live()
}
const entries = async (runId: string, kind: string) =>
  (await host().ok('GET', `/v1/runs/${runId}/events?limit=200`)).items.filter(
    (entry: { kind: string }) => entry.kind === kind,
  )

describe('[CHG12] the reject of a file', () => {
  test('that a person has denied says why, and may be asked for again', async () => {
    const scene = await collected()
    const file = await reject(scene)
    await resolve(file, 'rejected')
    const { files } = await host().ok('GET', `/v1/runs/${scene.turn.runId}/changes`)
    expect(files).toMatchObject([{ decision: 'rejected', rejectable: true }])
    const again = await reject(scene)
    expect(again).toMatchObject({ state: 'waiting' })
    expect(again.operationId).not.toBe(file.operationId)
    expect(scene.session.agent.commands('execute')).toEqual([])
  })

  test('that the policy denies is denied at once, and its run ends', async () => {
    const project = 'no-reverts'
    const rules = [{ match: { category: 'edit' }, decision: 'deny' }]
    const source = JSON.stringify({ name: 'p', rules })
    await host().ok('PUT', '/v1/policies', { project, format: 'json', source })
    const scene = await collected([cheer], { project })
    const made = await host().ok('POST', at(scene, 'reject'), { all: true })
    expect(made.files).toMatchObject([{ state: 'denied', approvalId: null }])
    expect(made.files[0].reason).not.toBeNull()
    expect((await host().ok('GET', `/v1/runs/${made.runId}`)).run.status).toBe('completed')
    expect(scene.session.agent.commands('execute')).toEqual([])
  })

  test('that fails says so, keeps the file rejectable, and is tried anew', async () => {
    const scene = await collected()
    const file = await reject(scene)
    await approve(file)
    const { id } = await scene.session.agent.command('execute')
    scene.session.agent.result(id, { ...report({ status: 'failed', error: 'The disk is full' }) })
    await host().live()
    expect((await scene.changes()).files).toMatchObject([{ rejectable: true }])
    const again = await reject(scene)
    expect(again).toMatchObject({ state: 'waiting' })
    expect(again.operationId).not.toBe(file.operationId)
  })

  test('of which nothing was heard is unknown, and is not done a second time', async () => {
    const scene = await collected()
    const file = await reject(scene)
    await approve(file)
    await host().live(20 * 60_000)
    expect(await reject(scene)).toMatchObject({ state: 'unknown', operationId: file.operationId })
    const [attempt] = (await host().ok('GET', `/v1/operations/${file.operationId}`)).attempts
    await host().ok('POST', `/v1/attempts/${attempt.id}/abandon`, { reason: 'gave up' })
    await host().live()
    expect(await reject(scene)).toMatchObject({ state: 'unknown', operationId: file.operationId })
    expect(scene.session.agent.commands('execute')).toHaveLength(1)
  })

  test('is recorded with who and why, without a secret, and accepting twice is accepting once', async () => {
    const canary = 'canary-9f8e7d6c5b4a-value'
    const configurationId = await host().configuration()
    await host().ok('PUT', '/v1/secrets/REVIEW', { value: canary, configurationId })
    const scene = await collected([cheer], { configurationId })
    const { runId } = scene.turn
    for (let nth = 0; nth < 2; nth += 1)
      await host().ok('POST', at(scene, 'accept'), { all: true, reason: `no ${canary}` })
    await reject(scene, { paths: ['a.txt'], reason: `no ${canary}` })
    const accepted = await entries(runId, 'change.accepted')
    const rejected = await entries(runId, 'change.rejected')
    expect([accepted.length, rejected.length]).toEqual([1, 1])
    expect(accepted[0].data).toMatchObject({ path: 'a.txt', operationId: null })
    expect(rejected[0].data).toMatchObject({ path: 'a.txt', by: accepted[0].data.by })
    for (const { data } of [...accepted, ...rejected]) {
      expect(data.reason).toMatch(/^no /)
      expect(JSON.stringify(data)).not.toContain(canary)
    }
    expect(
      JSON.stringify(
        scene.session.host.app.databaseOf(scene.session.id).all('select * from change_decisions'),
      ),
    ).not.toContain(canary)
    expect((await scene.changes()).files[0]?.decision).toBe('rejected')
    await host().ok('POST', at(scene, 'accept'), { all: true })
    expect(await entries(runId, 'change.accepted')).toHaveLength(2)
  })

  test('is of this run and of exactly this name', async () => {
    const scene = await collected([edit('caf\u00e9.txt', 'x\n', 'x', 'y')])
    const other = await ChangeScene.in(scene.session, [edit('b.txt', 'x\n', 'x', 'y')])
    await other.tell()
    await other.collect()
    for (const name of [
      ...['b.txt', 'cafe\u0301.txt', 'CAF\u00c9.txt', './caf\u00e9.txt', 'caf\u00e9.txt\n'],
      ...['../caf\u00e9.txt', '/caf\u00e9.txt', 'caf\u00e9.txt/', ' caf\u00e9.txt'],
    ]) {
      const answer = await host().call('POST', at(scene, 'reject'), { paths: [name] })
      expect([name, answer.status]).toEqual([name, 422])
    }
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    for (const verb of ['reject', 'accept'])
      expect(await host().refusal('POST', at(scene, verb), { all: true }, stranger)).toEqual([
        404,
        'not_found',
      ])
    const hunks = `${at(scene, 'hunks')}?path=caf%C3%A9.txt`
    expect(await host().refusal('GET', hunks, undefined, stranger)).toEqual([404, 'not_found'])
    expect(await reject(scene, { paths: ['caf\u00e9.txt'] })).toMatchObject({ state: 'waiting' })
    expect((await other.changes()).files[0]?.decision).toBeNull()
  })

  test.each(['100755', '100644'] as const)(
    '[CHG13] brings a deleted file back with its mode (%s)',
    async (mode) => {
      const deleted: Step = {
        ...{ tool: 'apply_patch', path: 'run.sh', before: 'go\n', after: null },
        input: { patchText: '*** Begin Patch\n*** Delete File: run.sh\n*** End Patch' },
      }
      const scene = await ChangeScene.begin(host(), [deleted])
      await scene.tell()
      const [file] = scene.bundle().files
      const before = { ...file?.before, mode }
      await scene.collect(scene.bundle({ files: [{ ...file, before }] as never }))
      await approve(await reject(scene))
      const { body } = await scene.session.agent.command('execute')
      expect(body.operation).toMatchObject({ targetPath: 'run.sh', content: 'go\n' })
      // As an agent of an earlier build takes it, which reads over what stands beside the operation.
      expect(body.operation.revert).toEqual({ expect: null, restore: sha256('go\n') })
      expect(body.executable).toBe(mode === '100755' ? true : undefined)
    },
  )

  test('whose text is gone, or is over 512 KiB, is put back by hand', async () => {
    const long = `${'x'.repeat(512 * 1024)}\n`
    const scene = await collected([
      edit('long.txt', `${long}a\n`, 'a\n', 'b\n'),
      edit('fits.txt', `${'y'.repeat(512 * 1024 - 2)}a\n`, 'a\n', 'b\n'),
      edit('gone.txt', 'only here\n', 'only', 'not'),
    ])
    await host().rows('delete from blob_index where sha256 = ?', sha256('only here\n'))
    const { files } = await host().ok('POST', at(scene, 'reject'), { all: true })
    const missing = 'Its text is gone, or over 512 KiB: put it back by hand'
    expect(files).toMatchObject([
      { path: 'long.txt', state: 'manual', reason: missing, operationId: null },
      { path: 'fits.txt', state: 'waiting' },
      { path: 'gone.txt', state: 'manual', reason: missing, operationId: null },
    ])
    const hunks = await host().ok('GET', `${at(scene, 'hunks')}?path=gone.txt`)
    expect(hunks).toMatchObject({ rejectable: false, reasons: [missing], hunks: [] })
  })

  test('of which the agent restores nothing says that it is gone or was not there', async () => {
    const made: Step = {
      ...{ tool: 'write', path: 'n.txt', exists: false, before: null, after: 'new\n' },
      input: { filePath: 'n.txt', content: 'new\n' },
    }
    const scene = await collected([made])
    await approve(await reject(scene))
    const { id, body } = await scene.session.agent.command('execute')
    expect(body.operation.revert).toEqual({ expect: sha256('new\n'), restore: null })
    scene.session.agent.result(id, { ...report({ output: 'It is gone already' }) })
    await host().live()
    expect(await reject(scene)).toMatchObject({ state: 'applied', reason: 'It is gone already' })
  })
})
