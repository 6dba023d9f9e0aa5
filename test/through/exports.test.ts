import { expect, test } from 'vitest'
import { holds, verifyBundle } from '../../local/verify/verify.ts'
import type { PublicKeys } from '../../src/contract/export.ts'
import { ChangeScene, edit, sha256 } from '../support/changes-kit.ts'
import type { Sql } from '../../src/core/ports.ts'
import { useHost } from '../support/host.ts'

const host = useHost()

async function exported(scene: ChangeScene, query = '') {
  const { app, key } = host()
  const path = `/v1/runs/${scene.turn.runId}/bundle${query}`
  return (await app.app.request(path, { headers: { authorization: `Bearer ${key}` } })).text()
}
const keys = async () =>
  ((await (await host().app.app.request('/.well-known/gantry-keys.json')).json()) as PublicKeys)
    .keys

test('[EXP1] [EXP8] a collected change is in the file with both texts, and each byte of it counts', async () => {
  const scene = await ChangeScene.begin(host(), [edit('a.txt', 'hello\nworld\n', 'world', 'moon')])
  await scene.tell()
  await scene.collect()
  const text = await exported(scene)
  const verified = await verifyBundle(text, await keys())
  expect(verified).toMatchObject({
    signature: 'holds',
    problem: null,
    counts: { change: 1, text: 2 },
  })
  const changed = text.replace('hello\\nmoon', 'hello\\nsun!')
  expect(changed).not.toBe(text)
  expect(holds(await verifyBundle(changed, await keys()))).toBe(false)
  const hashes = await exported(scene, '?texts=hashes')
  expect(hashes).not.toContain('hello\\n')
  expect(await verifyBundle(hashes, await keys())).toMatchObject({
    signature: 'holds',
    problem: null,
  })
})

test('[EXP10] the proven line is the model’s in the forms of others', async () => {
  const scene = await ChangeScene.begin(host(), [edit('a.txt', 'hello\nworld\n', 'world', 'moon')])
  await scene.tell()
  await scene.collect()
  expect(JSON.parse(await exported(scene, '?format=agent-trace'))).toMatchObject({
    files: [
      {
        path: 'a.txt',
        conversations: [{ contributor: { type: 'ai' }, ranges: [{ start_line: 2, end_line: 2 }] }],
      },
    ],
  })
  expect(await exported(scene, '?format=git-ai')).toMatch(/^a\.txt\n {2}[0-9a-f]{16} 2\n---\n/)
})

const twoFiles = async () => {
  const scene = await ChangeScene.begin(host(), [
    edit('a.txt', 'hello\nworld\n', 'world', 'moon'),
    edit('private-name.txt', 'secret plans\n', 'plans', 'notes'),
  ])
  await scene.tell()
  await scene.collect()
  return scene
}

test('[EXP12] an excerpt shows one file and nothing of the others, and each byte of it counts', async () => {
  const scene = await twoFiles()
  const text = await exported(scene, '?format=excerpt&path=a.txt')
  expect(text).not.toMatch(/private-name|plans|notes/)
  const [envelope = '', ...lines] = text.split('\n').slice(0, -1)
  const { payload } = JSON.parse(envelope) as { payload: string }
  expect(Buffer.from(payload, 'base64').toString()).not.toContain('private-name')
  expect(await verifyBundle(text, await keys())).toMatchObject({
    ...{ signature: 'holds', problem: null, run: scene.turn.runId, file: 'a.txt' },
    counts: { entry: 1, change: 1, text: 2 },
  })
  const joined = (changed: readonly string[]) => [envelope, ...changed, ''].join('\n')
  const problemOf = async (changed: readonly string[]) =>
    (await verifyBundle(joined(changed), await keys())).problem?.line
  for (const at of lines.keys()) {
    expect(await problemOf(lines.toSpliced(at, 1))).toBeTypeOf('number')
    expect(await problemOf(lines.toSpliced(at, 0, lines[at] ?? ''))).toBe(at + 3)
    const { index, ...rest } = JSON.parse(lines[at] ?? '') as { index: number }
    const moved = JSON.stringify({ type: 'shown', index: index + 1, ...rest })
    expect(await problemOf(lines.with(at, moved))).toBeTypeOf('number')
  }
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += 11) {
    const changed = Buffer.from(bytes)
    changed[at] = (bytes[at] ?? 0) ^ 1
    expect([at, holds(await verifyBundle(changed.toString(), await keys()))]).toEqual([at, false])
  }
  // The line of another run's excerpt is none of this one.
  const other = (await exported(await twoFiles(), '?format=excerpt&path=a.txt')).split('\n')
  expect(await problemOf(lines.with(0, other[1] ?? ''))).toBe(2)
})

test('[EXP12] no change of the file can be left out, though each by itself has its place in the bundle', async () => {
  const scene = await ChangeScene.begin(host(), [
    edit('a.txt', 'one\n', 'one', 'two'),
    edit('a.txt', 'two\n', 'two', 'three'),
  ])
  await scene.tell()
  await scene.collect()
  const text = await exported(scene, '?format=excerpt&path=a.txt')
  expect(holds(await verifyBundle(text, await keys()))).toBe(true)
  const lines = text.split('\n').slice(0, -1)
  const event = (await scene.changes()).files[0]?.events[1]
  const names = [event?.event.eventId ?? '', event?.after?.sha256 ?? '']
  const isLast = (line: string) => line !== lines[0] && names.some((name) => line.includes(name))
  const without = lines.filter((line) => !isLast(line))
  expect(lines.length - without.length).toBe(3)
  const { signature, problem } = await verifyBundle(`${without.join('\n')}\n`, await keys())
  expect([signature, problem === null]).toEqual(['holds', false])
})

test('[EXP12] an excerpt needs a file that the run has changed', async () => {
  const scene = await twoFiles()
  const path = `/v1/runs/${scene.turn.runId}/bundle?format=excerpt`
  expect(await host().refusal('GET', path)).toEqual([422, 'unprocessable'])
  expect(await host().refusal('GET', `${path}&path=other`)).toEqual([422, 'unprocessable'])
})

test('[EXP13] SLSA provenance names the proven files, and what was asked for by its hash', async () => {
  const scene = await twoFiles()
  const text = await exported(scene, '?format=slsa')
  expect(await verifyBundle(text, await keys())).toMatchObject({
    ...{ signature: 'holds', problem: null, run: scene.turn.runId, counts: { subject: 3 } },
  })
  const { payload } = JSON.parse(text) as { payload: string }
  const statement = JSON.parse(Buffer.from(payload, 'base64').toString()) as object
  expect(statement).toMatchObject({
    _type: 'https://in-toto.io/Statement/v1',
    predicateType: 'https://slsa.dev/provenance/v1',
    subject: [
      { name: `run ${scene.turn.runId}` },
      { name: 'a.txt', digest: { sha256: sha256('hello\nmoon\n') } },
      { name: 'private-name.txt' },
    ],
    predicate: {
      buildDefinition: {
        buildType: 'urn:gantry:agent-run:v1',
        externalParameters: { prompt: { sha256: sha256('go') }, repository: null },
        resolvedDependencies: [{ uri: 'urn:gantry:policy:sandbox-default' }, {}, {}],
      },
      runDetails: { metadata: { invocationId: scene.turn.runId } },
    },
  })
  expect(holds(await verifyBundle(`${text}{}\n`, await keys()))).toBe(false)
})

test('[EXP13] what a file was left as goes by the order of the tools, not by that of the collects', async () => {
  const scene = await ChangeScene.begin(host(), [
    edit('a.txt', 'one\n', 'one', 'two'),
    edit('a.txt', 'two\n', 'two', 'three'),
  ])
  await scene.tell()
  await scene.collect(scene.page(1, 2), scene.bundle().messages[1]?.id)
  await scene.collect(scene.page(0, 1))
  const { payload } = JSON.parse(await exported(scene, '?format=slsa')) as { payload: string }
  expect(JSON.parse(Buffer.from(payload, 'base64').toString())).toMatchObject({
    subject: [{}, { name: 'a.txt', digest: { sha256: sha256('three\n') } }],
  })
})

test('[EXP8] a stored event, its entry or its text that was changed afterwards does not pass', async () => {
  const spoilt = async (spoil: (sql: Sql) => void) => {
    const scene = await ChangeScene.begin(host(), [edit('a.txt', 'hello\n', 'hello', 'goodbye')])
    await scene.tell()
    await scene.collect()
    spoil(host().app.databaseOf(scene.session.id))
    const { signature, problem } = await verifyBundle(await exported(scene), await keys())
    expect(signature).toBe('holds')
    return problem?.what
  }
  expect(
    await spoilt((sql) =>
      sql.run(`update change_events set event = replace(event, 'a.txt', 'b.txt')`),
    ),
  ).toMatch(/^Change evt_\w+: its content is not what was hashed/)
  expect(
    await spoilt((sql) =>
      sql.run(`update change_events set event = '{}', hash = '${sha256('{}')}'`),
    ),
  ).toMatch(/the timeline has not recorded it so/)
  expect(
    await spoilt((sql) =>
      sql.run(
        `update run_events set data = replace(data, 'a.txt', 'b.txt') where kind = 'change.recorded'`,
      ),
    ),
  ).toMatch(/^Timeline entry \d+: The content is not what was hashed/)
  expect(await spoilt((sql) => sql.run(`delete from change_events`))).toMatch(
    /^Timeline entry \d+: its change is not in the file/,
  )
  expect(await spoilt((sql) => sql.run(`delete from run_events where seq = 2`))).toMatch(
    /^Timeline entry \d+/,
  )
})

test('[EXP8] a blob that is another or is gone is told', async () => {
  const scene = await ChangeScene.begin(host(), [edit('a.txt', 'x one\n', 'one', 'two')])
  await scene.tell()
  await scene.collect()
  const hash = sha256('x two\n')
  await host().rows(
    'update blobs set bytes = cast(? as blob) where sha256 = ? returning 1 as done',
    'x six\n',
    hash,
  )
  const verified = await verifyBundle(await exported(scene), await keys())
  expect(verified).toMatchObject({
    signature: 'holds',
    problem: { what: 'A text that has not its hash' },
  })
  await host().rows('delete from blobs where sha256 = ? returning 1 as done', hash)
  expect((await verifyBundle(await exported(scene), await keys())).problem?.what).toMatch(
    /one of its texts is not in the file/,
  )
})
