import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { script } from '../../local/model/scripted-model.ts'
import {
  allow,
  attempted,
  call,
  change,
  changesOf,
  codesOf,
  expectGitSays,
  fullMode,
  inDatabase,
  patch,
  reject,
  run,
  runAnd,
  shape,
  step,
  textOf,
} from './changes-kit.ts'
import { longTest } from '../support/long.ts'
import { makeKey } from './policy-kit.ts'
import { bash, useBox, useRealStack, write } from './support.ts'

const stack = useRealStack('workerd', () => fullMode)
let approver: string
beforeAll(async () => void (approver = await makeKey(stack(), 'grace', 'approve')))

describe('write and edit', () => {
  const only = useBox(stack, () => ({ title: 'changes' }))

  test('[CHG1] [CHG5] write creates and modifies, edit replaces, two edits are a chain, bash is nobody’s', async () => {
    const box = only()
    const { changes } = await run(box, [
      write('a.txt', 'one\ntwo\n'),
      write('a.txt', 'one\ntwo\nthree\n'),
      step(change('a.txt', 'two', '$& zwei')),
      step(change('a.txt', 'one', 'uno'), change('a.txt', 'three', 'tres')),
      bash('echo four >> a.txt'),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(shape(changes)).toEqual([
      {
        ...{ path: 'a.txt', operation: 'create', rejectable: true },
        proofs: [
          expect.stringMatching(/toolpart-chain|opencode-snapshot/),
          ...['opencode-snapshot', 'opencode-snapshot'],
          ...['inverse-edit-chain', 'inverse-edit-chain'],
        ],
      },
    ])
    const [file] = changes.files
    expect(file?.events.every(({ reviewable }) => reviewable)).toBe(true)
    expect(await textOf(box, file?.after ?? null)).toBe('uno\n$& zwei\ntres\n')
    await expectGitSays(box, changes)
  })

  test('[CHG12] [CHG13] rejecting, by the agent itself: applied, a conflict, and what is to be done by hand', async () => {
    const box = only()
    const { turn, changes } = await run(box, [
      step(call('write', { filePath: 'new.txt', content: 'new\n' })),
      write('edited.txt', 'mine\n'),
      bash('printf "x\\n" > manual.txt'),
      step(call('read', { filePath: 'manual.txt' })),
      // A shell in the same step may have written it: not proven.
      step(change('manual.txt', 'x', 'y'), call('bash', { command: 'true', description: 'none' })),
      { text: 'Done.' },
    ])
    expect(changes.files.map(({ path, rejectable }) => [path, rejectable])).toEqual([
      ['new.txt', true],
      ['edited.txt', true],
      ['manual.txt', false],
    ])
    writeFileSync(box.folder('workspace/edited.txt'), 'by hand\n')
    const files = await reject(box, turn)
    expect(files.map(({ state }) => state)).toEqual(['waiting', 'waiting', 'manual'])
    for (const file of files.slice(0, 2)) await allow(box, file, approver)
    expect((await attempted(box, files[0])).status).toBe('succeeded')
    expect((await attempted(box, files[1])).report?.error).toBe('Conflict: it was changed since')
    const again = await reject(box, turn, { paths: ['new.txt'] })
    expect(again).toMatchObject([{ state: 'applied', operationId: files[0]?.operationId }])
    expect(existsSync(box.folder('workspace/new.txt'))).toBe(false)
    expect(readFileSync(box.folder('workspace/edited.txt'), 'utf8')).toBe('by hand\n')
    expect(readFileSync(box.folder('workspace/manual.txt'), 'utf8')).toBe('y\n')
    const after = await changesOf(box, turn)
    expect(after.files[1]).toMatchObject({ decision: 'rejected', rejectable: true })
  })

  longTest('[CHG9] a sub-agent’s change is there once, by its own name', async () => {
    const inner = script([write('sub.txt', 'by sub\n'), { text: 'Written.' }])
    const { changes } = await run(only(), [
      step(
        call('task', {
          ...{ description: 'sub', prompt: `Do it.\n${inner}`, subagent_type: 'general' },
        }),
      ),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(changes.files).toMatchObject([
      { path: 'sub.txt', operation: 'create', events: [{ event: { memberName: 'general' } }] },
    ])
    expect(changes.files[0]?.events).toHaveLength(1)
  })

  longTest(
    '[CHG9] a part that was edited in OpenCode’s database before it is collected is a mismatch and proves nothing',
    async () => {
      const box = only()
      const kept = [write('kept.txt', 'kept\n'), write('kept.txt', 'new\n')]
      const steps = [write('forged.txt', 'true\n'), ...kept]
      const { changes } = await runAnd(box, steps, () =>
        inDatabase(box, (db) =>
          db.exec(
            `update part set data = json_set(data, '$.state.input.content', 'forged')
             where json_extract(data, '$.state.input.content') = 'true' || char(10);
           update part set data = json_set(data, '$.state.metadata.exists', json('false'))
             where json_extract(data, '$.state.input.content') = 'new' || char(10)`,
          ),
        ),
      )
      expect(changes).toMatchObject({
        mismatches: 2,
        files: [
          { path: 'forged.txt', rejectable: false, events: [{ event: { after: null } }] },
          { path: 'kept.txt', rejectable: false, events: [{}, { event: { after: null } }] },
        ],
      })
      expect(codesOf(changes)).toContain('evidence-mismatch')
    },
  )

  test('[CHG3] a failed edit is no change, and what cannot be proven is kept as such', async () => {
    const { changes } = await run(only(), [
      step(change('nope.txt', 'x', 'y')),
      bash('printf "x\\n" > by-bash.txt'),
      { text: 'Done.' },
    ])
    expect(changes.files).toEqual([])
    expect(changes.collects).toMatchObject([{ state: 'stored', candidates: 0 }])
  })

  longTest('[CHG3] snapshots that a nested repository has stopped prove nothing', async () => {
    const box = only()
    const { changes } = await run(box, [
      write('frozen.txt', 'before\n'),
      bash('mkdir nested && git -C nested init -q && echo x > nested/x'),
      step(change('frozen.txt', 'before', 'after')),
      write('frozen.txt', 'at last\n'),
      { text: 'Done.' },
    ])
    const events = changes.files.find(({ path }) => path === 'frozen.txt')?.events
    expect(events?.slice(1).map(({ event }) => event.evidenceProof)).toEqual([
      'metadata-only-fallback',
      'metadata-only-fallback',
    ])
    expect(changes.files.every(({ rejectable }) => !rejectable)).toBe(true)
    expect(codesOf(changes)).toContain('snapshot-frozen')
    rmSync(box.folder('workspace/nested'), { recursive: true })
  })
})

describe('apply_patch', () => {
  const only = useBox(stack, () => ({ title: 'patches', model: 'scripted-gpt-5' }))

  test('[CHG5] adds, updates and deletes, and each is what git says', async () => {
    const box = only()
    const { changes } = await run(box, [
      patch('*** Add File: p.txt', '+one', '+two', '*** Add File: q.txt', '+q'),
      patch('*** Update File: p.txt', '@@', ' one', '-two', '+zwei'),
      patch('*** Delete File: q.txt'),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(shape(changes)).toEqual([
      {
        ...{ path: 'p.txt', operation: 'create', rejectable: true },
        proofs: ['opencode-snapshot', 'opencode-snapshot'],
      },
      {
        ...{ path: 'q.txt', operation: 'none', rejectable: true },
        proofs: ['opencode-snapshot', 'opencode-snapshot'],
      },
    ])
    await expectGitSays(box, changes)
  })
})
