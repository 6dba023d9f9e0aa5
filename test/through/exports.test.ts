import { expect, test } from 'vitest'
import { holds, verifyBundle } from '../../local/verify/verify.ts'
import type { PublicKeys } from '../../src/contract/export.ts'
import { ChangeScene, edit } from '../support/changes-kit.ts'
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
