import { describe, expect, test } from 'vitest'
import { patchChecksum, maxPatchBytes, type TurnPatch } from '../../../../src/contract/patch.ts'
import { agentEvent } from '../../../support/agent.ts'
import {
  eventsOf,
  prompt,
  readySession,
  storeSnapshot,
  vanish,
} from '../../../support/lifecycle.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

const tree = (letter: string) => letter.repeat(40)
const text = 'diff --git a/a.ts b/a.ts\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n'
const binary = 'diff --git a/b.png b/b.png\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIc\n\n'

function patchOf(more: Partial<TurnPatch> = {}): TurnPatch {
  const given = more.text === undefined ? text : more.text
  return {
    base: tree('a'),
    tree: tree('b'),
    files: 1,
    bytes: 100,
    text: given,
    checksum: patchChecksum(given ?? ''),
    ...more,
  }
}
const file = { path: 'a.ts', status: 'modified', additions: 1, deletions: 1 } as const
const report = (files: number, base = tree('a')) => ({
  patch: files === 0 ? '' : text,
  files: Array.from({ length: files }, () => file),
  truncated: false,
  base,
})

/** A turn that ends with this; its id. */
async function turn(
  session: TestSession,
  seq: number,
  end: { patch?: unknown; diff?: unknown },
  generation = 1,
): Promise<string> {
  const { id: turnId } = await prompt(session)
  const result = { t: 'result', commandId: turnId, ok: true, data: { sent: true } } as const
  await session.receive(result, generation)
  const data = { turnId, state: 'completed', reason: null, text: 'x', diff: null, ...end }
  await session.receive({ t: 'events', items: [agentEvent(seq, 'turn.ended', data)] }, generation)
  return turnId
}
const patches = (session: TestSession) => session.actor.api.changes.patches(testCaller)
const textOf = async (session: TestSession, turnId = 'latest') =>
  (await session.actor.api.changes.patch(testCaller, turnId)).text

describe('the patch of each turn', () => {
  test('[SES15] is kept, listed and given out, beyond the sandbox and the instance; the log does not hold it', async () => {
    const session = await readySession()
    const first = await turn(session, 1, { patch: patchOf() })
    const second = await turn(session, 2, { patch: patchOf({ tree: tree('c'), text: `${text}2` }) })
    await vanish(session)
    session.restart()
    expect(await patches(session)).toMatchObject([
      {
        turnId: first,
        generation: 1,
        base: tree('a'),
        tree: tree('b'),
        state: 'whole',
        note: null,
      },
      { turnId: second, tree: tree('c') },
    ])
    expect(await textOf(session, first)).toBe(text)
    expect(await textOf(session)).toBe(`${text}2`)
    expect(JSON.stringify(eventsOf(session, 'turn.ended'))).not.toContain('diff --git')
    const other = { ...testCaller, organisationId: 'org_x' }
    await expect(session.actor.api.changes.patches(other)).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(session.actor.api.changes.patch(other, first)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('[SES18] it names a repository of which only the commit is in it, also if the agent does not', async () => {
    const session = await readySession()
    const added = `diff --git a/lib b/lib\nnew file mode 160000\nindex 0000000..4f27120\n--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+Subproject commit 4f27120\n`
    const moved = added.replace('new file mode 160000\nindex 0000000..4f27120', 'index 1..2 160000')
    await turn(session, 1, { patch: patchOf({ text: `${text}${added}` }) })
    await turn(session, 2, { patch: patchOf({ tree: tree('c'), text: `${text}${moved}` }) })
    await turn(session, 3, {
      patch: patchOf({ tree: tree('d'), text: `${text}+index 1..2 160000\n` }),
    })
    const note = expect.stringContaining('not its files: a/lib b/lib.') as unknown
    expect(await patches(session)).toMatchObject([
      { state: 'changed', note },
      { state: 'changed', note },
      { state: 'whole', note: null },
    ])
    const [first] = await patches(session)
    expect(await textOf(session, first?.turnId)).toContain(added)
  })

  test('[SES18] it is not called whole if something of the workspace is not in it: first line and row name it', async () => {
    const session = await readySession()
    const link = `diff --git a/lib b/lib\nnew file mode 160000\nindex 0000000..4f27120\n--- /dev/null\n+++ b/lib\n@@ -0,0 +1 @@\n+Subproject commit 4f27120\n`
    const leftOut = [{ path: 'lib', reason: 'A submodule: only its commit is here' }]
    await turn(session, 1, { patch: patchOf({ text: `${text}${link}`, leftOut }) })
    await turn(session, 2, { patch: patchOf({ tree: tree('c'), leftOut: [] }) })
    const note =
      'These are in the workspace and not in here: lib (A submodule: only its commit is here).'
    expect(await patches(session)).toMatchObject([
      { state: 'changed', note },
      { state: 'whole', note: null },
    ])
    const [first] = await patches(session)
    expect(await textOf(session, first?.turnId)).toBe(`# Gantry: ${note}\n${text}${link}`)
  })

  test('[SES18] a name with a line break stays on the first line: what follows it is no patch', async () => {
    const session = await readySession()
    const path = 'lib\ndiff --git a/x b/x\n'
    await turn(session, 1, { patch: patchOf({ leftOut: [{ path, reason: 'It cannot be read' }] }) })
    const [first = '', ...rest] = (await textOf(session)).split('\n')
    expect(first).toContain(`${JSON.stringify(path)} (It cannot be read)`)
    expect(rest.join('\n')).toBe(text)
  })

  test('[SES15] a turn that changed nothing, or comes twice, adds none; one that takes everything back does', async () => {
    const session = await readySession()
    const unchanged = await turn(session, 1, { patch: patchOf({ tree: tree('a'), text: '' }) })
    const first = await turn(session, 2, { patch: patchOf() })
    await turn(session, 3, { patch: patchOf() })
    const undone = await turn(session, 4, { patch: patchOf({ tree: tree('a'), text: '' }) })
    expect((await patches(session)).map(({ turnId }) => turnId)).toEqual([first, undone])
    const none = session.actor.api.changes.patch(testCaller, unchanged)
    await expect(none).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[SES15] one that is too large is not kept, and says so with its size', async () => {
    const session = await readySession()
    const id = await turn(session, 1, { patch: patchOf({ text: null, bytes: 7_000_000 }) })
    const [row] = await patches(session)
    expect(row).toMatchObject({ state: 'missing', bytes: 7_000_000 })
    expect(row?.note).toContain(`7000000 bytes are more than the ${maxPatchBytes}`)
    await expect(session.actor.api.changes.patch(testCaller, id)).rejects.toThrow('7000000 bytes')
  })

  test('[SES15] one that grows too large as its secrets are taken out is not kept', async () => {
    const session = await readySession()
    const sealed = await session.crypto.seal('abc-xyz')
    void session.actor.api.env.submit(testCaller, [
      { key: 'K'.repeat(100), sealed, kind: 'secret' },
    ])
    await session.settle()
    const given = `${text}${'+abc-xyz\n'.repeat(20_000)}`
    await turn(session, 1, { patch: patchOf({ text: given }) })
    expect(await patches(session)).toMatchObject([{ state: 'missing' }])
    await expect(textOf(session)).rejects.toThrow('is not kept')
  })

  test('[SES15] in a sandbox with a base of its own only what differs from that is work', async () => {
    const session = await readySession()
    const first = await turn(session, 1, { patch: patchOf() })
    await vanish(session)
    await session.pass(0)
    await session.connect({ generation: 2 })
    const unchanged = { base: tree('e'), tree: tree('e'), text: '' }
    await turn(session, 1, { patch: patchOf(unchanged) }, 2)
    const same = await turn(session, 2, { patch: patchOf({ base: tree('e') }) }, 2)
    const ids = (await patches(session)).map(({ turnId }) => turnId)
    expect(ids).toEqual([first, same])
  })

  test('[SES15] secrets are taken out, and it says that it may not apply; binary files, which cannot be searched, are left out', async () => {
    const session = await readySession()
    const sealed = await session.crypto.seal('hunter2hunter2')
    void session.actor.api.env.submit(testCaller, [{ key: 'TOKEN', sealed, kind: 'secret' }])
    await session.settle()
    const given = `${text.replace('+b', '+hunter2hunter2')}${binary}`
    await turn(session, 1, { patch: patchOf({ text: given }) })
    const kept = await textOf(session)
    expect(kept).not.toContain('hunter2')
    expect(kept).not.toContain('GIT binary patch')
    expect(kept).toMatch(/^# Gantry: Secrets were taken out.*b\.png/)
    expect(await patches(session)).toMatchObject([
      { state: 'changed', note: expect.stringContaining('may not apply') },
    ])
    await turn(session, 2, { patch: patchOf({ tree: tree('c'), text: `${text}2` }) })
    expect(await textOf(session)).toBe(`${text}2`)
  })

  test('[SES15] the newest twenty are kept; of older ones the row says so', async () => {
    const session = await readySession()
    const ids: string[] = []
    for (let at = 1; at <= 22; at += 1)
      ids.push(await turn(session, at, { patch: patchOf({ tree: String(at).padStart(40, '0') }) }))
    const rows = await patches(session)
    expect(rows.map(({ state }) => state).slice(0, 3)).toEqual(['missing', 'missing', 'whole'])
    await expect(session.actor.api.changes.patch(testCaller, ids[0] ?? '')).rejects.toThrow(
      'newest 20',
    )
    expect(await textOf(session, ids[21])).toBe(text)
  })

  test('[SES15] one of the wrong shape is dropped, and the turn ends all the same', async () => {
    const session = await readySession()
    const id = await turn(session, 1, { patch: { base: 'x' } })
    expect((await session.actor.api.turns.get(testCaller, id)).state).toBe('completed')
    expect(await patches(session)).toEqual([])
  })
})

describe('the diff', () => {
  test('[SES16] is not overwritten by an empty one of a new sandbox: it says whose it is and from when', async () => {
    const session = await readySession()
    await turn(session, 1, { diff: report(1) })
    const at = session.now
    await vanish(session)
    await session.pass(0)
    await session.connect({ generation: 2 })
    await turn(session, 1, { diff: report(0, tree('e')) }, 2)
    const asked = session.actor.api.changes.diff(testCaller)
    await session.settle()
    const [command] = session.commands().filter(({ kind }) => kind === 'diff')
    const data = report(0, tree('e'))
    await session.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data }, 2)
    const old = { at, generation: 1, live: false, files: [file], patch: text }
    expect(await asked).toMatchObject(old)
    // New work is new.
    await turn(session, 2, { diff: report(2, tree('e')) }, 2)
    session.linked = false
    const now = await session.actor.api.changes.diff(testCaller)
    expect([now.generation, now.files.length]).toEqual([2, 2])
  })

  test('[SES16] a sandbox that goes on with the session’s own files counts from where the session began', async () => {
    const session = await readySession()
    await turn(session, 1, { diff: report(1) })
    const sandbox = (generation: number) => ({ ...testCaller, generation })
    expect((await session.actor.api.agent.manifest(sandbox(1))).baseTree).toBeUndefined()
    await storeSnapshot(session, 's')
    await vanish(session)
    await session.pass(0)
    await session.connect({ generation: 2 })
    expect((await session.actor.api.agent.manifest(sandbox(2))).baseTree).toBe(tree('a'))
    // Against the same base, nothing means that everything was taken back.
    await turn(session, 1, { diff: report(0) }, 2)
    session.linked = false
    expect(await session.actor.api.changes.diff(testCaller)).toMatchObject({
      files: [],
      generation: 2,
    })
  })

  test('[SES10] that did not come in time is not asked for again', async () => {
    const session = await readySession()
    const asked = session.actor.api.changes.diff(testCaller)
    await session.pass(10_000)
    expect((await asked).live).toBe(false)
    await session.cut()
    await session.connect()
    expect(session.commands().filter(({ kind }) => kind === 'diff')).toEqual([])
  })

  test('[SES10] is not asked of a sandbox that is not ready yet', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    await session.pass(0)
    await session.connect({ ready: false })
    const asked = session.actor.api.changes.diff(testCaller)
    await session.settle()
    expect(session.commands().filter(({ kind }) => kind === 'diff')).toEqual([])
    expect(await asked).toMatchObject({ live: false, files: [] })
  })

  test('[SES16] a sandbox that begins anew has a base of its own', async () => {
    const session = await readySession()
    await turn(session, 1, { diff: report(1) })
    await vanish(session)
    await session.pass(0)
    await session.connect({ generation: 2 })
    const manifest = await session.actor.api.agent.manifest({ ...testCaller, generation: 2 })
    expect(manifest.baseTree).toBeUndefined()
  })
})
