// What somebody who works in the sandbox could write into OpenCode's records to have a change told otherwise, or not at all.

import { describe, expect, test } from 'vitest'
import { type EvidenceBundle, evidenceRecordText } from '../../src/contract/evidence.ts'
import { ChangeScene, sha256, side, type Step } from '../support/changes-kit.ts'
import { useHost } from '../support/host.ts'

const host = useHost()

const proofs = async (scene: ChangeScene) =>
  (await scene.changes()).files.map(({ path, events }) => [
    path,
    events.map(({ event }) => event.evidenceProof),
  ])

describe('[CHG19] an input that is not whole in the records', () => {
  const long = 'x'.repeat(400_000)
  const step: Step = {
    ...{ tool: 'write', path: 'a.txt', exists: true, before: 'old\n', after: long },
    input: { filePath: 'a.txt', content: long },
  }
  /** As the agent cuts an input: only the name of the file is left, and the hash of what was there. */
  const cut = (scene: ChangeScene, found: Record<string, unknown> | null): EvidenceBundle => {
    const bundle = scene.bundle()
    const [part] = bundle.parts
    const { filePath } = found ?? {}
    const recordHash = sha256(evidenceRecordText({ ...part!, input: found }))
    const path = String(filePath)
    return {
      ...bundle,
      parts: [{ ...part!, input: found && { filePath }, inputTruncated: true, recordHash }],
      windows: bundle.windows.map((window) => ({ ...window, changed: ['a.txt', 'b.txt'] })),
      files: bundle.files.map((file) => ({
        ...file,
        path,
        before: side('old\n'),
        after: side(long),
      })),
    }
  }
  const collected = async (found: Record<string, unknown> | null) => {
    const scene = await ChangeScene.begin(host(), [step])
    await scene.tell()
    await scene.collect(cut(scene, found))
    return scene
  }

  test('is compared by the hash of all of it, and proven by the snapshots if it is the same', async () => {
    const scene = await collected(step.input!)
    expect(await proofs(scene)).toEqual([['a.txt', ['opencode-snapshot']]])
    expect(await scene.session.events('evidence.mismatch')).toEqual([])
  })

  test('does not give the change of another file to its tool', async () => {
    const scene = await collected({ ...step.input, filePath: 'b.txt' })
    expect(await proofs(scene)).toEqual([['b.txt', ['metadata-only-fallback']]])
    expect(await scene.session.events('evidence.mismatch')).toMatchObject([
      { data: { tool: 'write', what: 'differs' } },
    ])
  })

  test('does not let a change vanish, whether it is none or longer than what was told', async () => {
    const none = await collected(null)
    expect(await none.session.events('evidence.mismatch')).toMatchObject([
      { data: { tool: 'write', what: 'differs' } },
    ])
    const short: Step = { ...step, input: { filePath: 'a.txt', content: 'x' } }
    const scene = await ChangeScene.begin(host(), [short])
    await scene.tell()
    const bundle = cut(scene, short.input!)
    const [part] = bundle.parts
    await scene.collect({ ...bundle, parts: [{ ...part!, recordHash: null }] })
    expect(await scene.session.events('evidence.mismatch')).toMatchObject([
      { data: { tool: 'write', what: 'differs' } },
    ])
    expect(await proofs(scene)).toEqual([['a.txt', ['metadata-only-fallback']]])
  })

  test('proves nothing if nobody can say whether it is what the tool was given', async () => {
    const scene = await ChangeScene.begin(host(), [step])
    await scene.tell()
    const bundle = cut(scene, step.input!)
    const [part] = bundle.parts
    await scene.collect({ ...bundle, parts: [{ ...part!, recordHash: null }] })
    expect(await proofs(scene)).toEqual([['a.txt', ['metadata-only-fallback']]])
    expect(await scene.session.events('evidence.mismatch')).toEqual([])
    const codes = (await scene.changes()).collects.flatMap(({ diagnostics }) => diagnostics)
    expect(codes).toMatchObject([{ code: 'toolpart-truncated' }, { code: 'extra-snapshot-path' }])
  })
})

const [exact, none] = ['toolpart-chain', 'metadata-only-fallback']

test('[CHG7] a secret that only a text between two edits holds is not kept, nor is that text', async () => {
  const canary = 'canary-5e4d3c2b1a09-value'
  const id = await host().configuration()
  await host().ok('PUT', '/v1/secrets/CANARY3', { value: canary, configurationId: id })
  const change = (old: string, by: string) => ({ filePath: 'a.txt', oldString: old, newString: by })
  const inputs = [
    change('key=', 'key=canary-5e4d3c'),
    change('3c\n', '3c2b1a09-value\n'),
    change('canary-5e4d3c2b', 'c'),
  ]
  for (const isNew of [false, true]) {
    const [first, last] = ['key=\n', 'key=c1a09-value\n']
    const made = { filePath: 'a.txt', content: first }
    const all = isNew ? [made, ...inputs] : inputs
    const steps = all.map((input): Step => ({
      ...{ tool: 'content' in input ? 'write' : 'edit', path: 'a.txt', input, exists: !isNew },
      ...{ before: isNew ? null : first, after: last },
    }))
    const scene = await ChangeScene.begin(host(), steps, { configurationId: id })
    scene.inOneStep = true
    await scene.tell()
    const { parts } = scene.bundle()
    const page = scene.page(0, 1)
    await scene.collect({
      ...page,
      parts: parts.map((part, at) => ({ ...part, order: at + 1 })),
      windows: page.windows.map((window) => ({ ...window, finishOrder: 9 })),
    })
    const codes = (await scene.changes()).collects.flatMap(({ diagnostics }) =>
      diagnostics.map(({ code }) => code),
    )
    const blobs = await host().rows('select hex(bytes) as bytes from blobs')
    const hex = Buffer.from(canary).toString('hex').toUpperCase()
    expect(JSON.stringify(blobs).includes(hex)).toBe(false)
    expect(await proofs(scene)).toEqual([
      ['a.txt', isNew ? [exact, exact, none, none] : [none, none, none]],
    ])
    expect(codes).toContain(isNew ? 'already-exact' : 'secret-replaced')
  }
})
