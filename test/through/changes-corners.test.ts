// What the reviews of changes say where little happens: texts of others, files that are gone again, secrets in an input.

import { expect, test } from 'vitest'
import { ChangeScene, edit, sha256, type Step } from '../support/changes-kit.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const cheer = edit('a.txt', 'hello world\n', 'world', 'moon')

const secret = async (name: string, value: string): Promise<string> => {
  const id = await host().configuration()
  await host().ok('PUT', `/v1/secrets/${name}`, { value, configurationId: id })
  return id
}

const foreign = (runId: string, name: string, over: object = {}) => {
  const ref = (text: string) => ({
    ...{ sha256: sha256(text), sizeBytes: Buffer.byteLength(text) },
    blobRef: `sha256:${sha256(text)}`,
  })
  const known = (text: string) => ({
    ...{ exists: true, sha256: sha256(text), sizeBytes: Buffer.byteLength(text) },
  })
  return (before: string, after: string) => ({
    event: {
      ...{
        schemaVersion: 1,
        eventId: name,
        taskId: runId,
        taskRef: runId,
        taskRefKind: 'canonical',
      },
      ...{
        phase: 'work',
        executionSeq: 0,
        sessionId: 's',
        memberName: 'codex',
        toolUseId: 'call_1',
      },
      ...{
        source: 'codex_patch',
        operation: 'modify',
        confidence: 'exact',
        workspaceRoot: '/repo',
      },
      ...{ filePath: '/repo/x.txt', relativePath: 'x.txt', timestamp: '2026-01-01T00:00:00Z' },
      ...{ toolStatus: null, before: ref(before), after: ref(after) },
      ...{ beforeState: known(before), afterState: known(after), relation: null },
      ...{ oldString: null, newString: null, linesAdded: null, linesRemoved: null },
      ...{ sourceRuntime: 'codex', sourceProvider: 'openai', sourceSessionId: null },
      ...{ sourcePartId: null, sourceMessageId: null, parentUserMessageId: null },
      ...{ attributionMethod: 'board-tool-call', sourceImportKey: name },
      ...{ evidenceProof: 'toolpart-chain', snapshotId: null, snapshotSource: null },
      ...{ shapeFingerprint: null, supersedesEventId: null, warnings: [] },
      ...over,
    },
    ...{ beforeContent: before, afterContent: after },
  })
}

const importInto = (scene: ChangeScene, changes: object[]) =>
  host().ok('POST', `/v1/runs/${scene.turn.runId}/changes/import`, { changes })

test('[CHG11] a file that was made and deleted is none in the end', async () => {
  const made: Step = {
    ...{ tool: 'write', path: 'x.txt', exists: false, before: null, after: 'x\n' },
    input: { filePath: 'x.txt', content: 'x\n' },
  }
  const patchText = '*** Begin Patch\n*** Delete File: x.txt\n*** End Patch'
  const gone: Step = {
    tool: 'apply_patch',
    path: 'x.txt',
    input: { patchText },
    before: 'x\n',
    after: null,
  }
  const scene = await ChangeScene.begin(host(), [made, gone])
  await scene.tell()
  await scene.collect()
  const { files } = await scene.changes()
  expect(files).toMatchObject([{ operation: 'none', before: null, after: null, rejectable: true }])
})

test('[CHG11] both sides of what is not proven have their reason', async () => {
  const scene = await ChangeScene.begin(host(), [cheer])
  await scene.tell()
  await scene.collect({ ...scene.bundle(), files: [] })
  expect((await scene.changes()).files[0]?.reasons).toEqual([
    'The text before it is not proven: opencode-edit-baseline-not-captured',
    'The text after it is not proven: opencode-edit-final-content-unavailable',
  ])
})

test('[CHG6] what was collected is told in the log, with numbers alone', async () => {
  const scene = await ChangeScene.begin(host(), [cheer])
  await scene.tell()
  const { id: collectId } = scene.asked
  await scene.collect()
  expect(await scene.session.events('changes.collected')).toMatchObject([
    {
      data: {
        ...{ collectId, turnId: scene.turn.id, runId: scene.turn.runId, mode: 'full' },
        ...{ candidates: 1, imported: 1, attempted: 1, upgraded: 1, reads: 1 },
      },
    },
  ])
})

test('[CHG11] the text of another run’s change is not there', async () => {
  const texts = ['only here\n', 'hello moon\n']
  const first = await ChangeScene.begin(host(), [edit('b.txt', texts[0]!, 'only', 'still')])
  await first.tell()
  await first.collect()
  const second = await ChangeScene.begin(host(), [cheer])
  await second.tell()
  await second.collect()
  const of = async (scene: ChangeScene) =>
    Promise.all(
      texts.map(async (text) => {
        const path = `/v1/runs/${scene.turn.runId}/changes/texts/${sha256(text)}`
        return (await host().call('GET', path)).status
      }),
    )
  expect([await of(first), await of(second)]).toEqual([
    [200, 404],
    [404, 200],
  ])
})

test('[CHG7] [CHG9] an input with a secret is no mismatch, and proves nothing by itself', async () => {
  const canary = 'canary-7c6d5e4f3a2b-value'
  const configurationId = await secret('CANARY5', canary)
  const create: Step = {
    ...{ tool: 'write', path: 'c.txt', exists: false, before: null, after: `x ${canary}\n` },
    input: { filePath: 'c.txt', content: `x ${canary}\n` },
  }
  const scene = await ChangeScene.begin(host(), [create], { configurationId })
  await scene.tell()
  await scene.collect()
  expect(await scene.session.events('evidence.mismatch')).toEqual([])
  const { files } = await scene.changes()
  expect(files).toMatchObject([
    { rejectable: false, events: [{ event: { evidenceProof: 'metadata-only-fallback' } }] },
  ])
})

test('[CHG7] a secret in either text of another agent is not kept, and the other text is', async () => {
  const canary = 'canary-0a1b2c3d4e5f-value'
  const configurationId = await secret('CANARY6', canary)
  for (const [name, before, after] of [
    ['was', `${canary}\n`, 'clean\n'],
    ['is', 'clean\n', `${canary}\n`],
  ] as const) {
    const scene = await ChangeScene.begin(host(), [], { configurationId })
    await importInto(scene, [foreign(scene.turn.runId, name)(before, after)])
    const [file] = (await scene.changes()).files
    const gone = { exists: true, unavailableReason: 'secret-replaced' }
    const { event } = file!.events[0]!
    expect([event.before?.sha256, event.after?.sha256]).toEqual([
      ...(name === 'was' ? [undefined, sha256('clean\n')] : [sha256('clean\n'), undefined]),
    ])
    expect(name === 'was' ? event.beforeState : event.afterState).toEqual(gone)
    expect(file).toMatchObject({ rejectable: false })
    const link = (await host().call('GET', (file!.before ?? file!.after)!.url)).text
    expect(link).toBe('clean\n')
    const blobs = JSON.stringify(await host().rows('select hex(bytes) as bytes from blobs'))
    expect(blobs.includes(Buffer.from(canary).toString('hex').toUpperCase())).toBe(false)
  }
})

test('[CHG14] one change from elsewhere among those of a file is enough to leave it to people', async () => {
  const scene = await ChangeScene.begin(host(), [])
  const { workspace } = scene.session.manifest.layout
  const { runId } = scene.turn
  await importInto(scene, [
    foreign(runId, 'there')('one\n', 'two\n'),
    foreign(runId, 'here', { workspaceRoot: workspace })('two\n', 'three\n'),
  ])
  const { files } = await scene.changes()
  expect(files).toMatchObject([
    { path: 'x.txt', rejectable: false, reasons: ['It was made in another workspace'] },
  ])
})

test('[CHG10] a source whose name only looks like OpenCode is refused', async () => {
  const scene = await ChangeScene.begin(host(), [])
  for (const field of ['sourceProvider', 'source', 'sourceRuntime', 'snapshotSource'])
    for (const [name, status] of [
      ['\u043Epencode', 422],
      ['open\u0441ode_patch', 422],
      ['codex', 202],
    ] as const) {
      const made = foreign(scene.turn.runId, `${field} ${name}`, { [field]: name })
      const path = `/v1/runs/${scene.turn.runId}/changes/import`
      const answer = await host().call('POST', path, { changes: [made('a\n', 'b\n')] })
      expect([field, name, answer.status < 300]).toEqual([field, name, status < 300])
      if (status === 422)
        expect(answer.json.error.details[0].path).toBe('changes.0.event.sourceProvider')
    }
})
