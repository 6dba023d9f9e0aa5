import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { signalProcess } from '../../local/processes/processes.ts'
import type { RejectedFile } from '../../src/contract/change-ledger.ts'
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
  reject,
  run,
  runAnd,
  shape,
  step,
  storesOf,
} from './changes-kit.ts'
import { api, makeKey } from './policy-kit.ts'
import { bash, type Box, sleep, until, useBox, useRealStack, write } from './support.ts'

// What happens to evidence when something breaks, and to a reject when the file or the control plane is not what it was.

const stack = useRealStack('workerd', () => fullMode)
let approver: string
beforeAll(async () => void (approver = await makeKey(stack(), 'grace', 'approve')))
const texts = (box: Box, name: string) => {
  const path = box.folder(`workspace/${name}`)
  return existsSync(path) ? readFileSync(path, 'utf8') : null
}

describe('rejecting what has changed since', () => {
  const only = useBox(stack, () => ({ title: 'rejecting' }))
  let turn: { runId: string | null }
  const edited = async (name: string) => {
    const box = only()
    await run(box, [write(name, 'one\n'), { text: 'Done.' }])
    const made = await run(box, [step(change(name, 'one', 'two')), { text: 'Done.' }])
    expect(shape(made.changes)).toEqual([
      { path: name, operation: 'modify', rejectable: true, proofs: ['opencode-snapshot'] },
    ])
    turn = made.turn
    const [file] = await reject(box, made.turn)
    expect(file?.state).toBe('waiting')
    return file as RejectedFile
  }

  test.for([
    ['edited', (path: string) => writeFileSync(path, 'two, and more\n'), 'it was changed since'],
    ['deleted', (path: string) => rmSync(path), 'it was deleted since'],
    [
      'a link',
      (path: string) => {
        renameSync(path, `${path}.real`)
        symlinkSync(`${path}.real`, path)
      },
      'it is a symlink now',
    ],
    [
      'below a link',
      (path: string) => {
        const folder = dirname(path)
        renameSync(folder, `${folder}-real`)
        symlinkSync(`${folder}-real`, folder)
      },
      'a folder on the way to it is none any more',
    ],
  ] as const)(
    '[CHG13] %s meanwhile: a conflict, and nothing is written',
    async ([name, spoil, why]) => {
      const box = only()
      const path = `${name.replaceAll(' ', '-')}/f.txt`
      const file = await edited(path)
      spoil(box.folder(`workspace/${path}`))
      await allow(box, file, approver)
      expect((await attempted(box, file)).report?.error).toBe(`Conflict: ${why}`)
      const left = { edited: 'two, and more\n', deleted: null } as Record<string, string | null>
      expect(texts(box, path)).toBe(name in left ? left[name] : 'two\n')
      if (name === 'below a link') rmSync(box.folder('workspace/below-a-link'))
    },
  )

  test('[CHG12] two at once are one, and it is done once', async () => {
    const box = only()
    const file = await edited('twice.txt')
    const both = await Promise.all([reject(box, turn as never), reject(box, turn as never)])
    expect(both.map(([each]) => each?.operationId)).toEqual([file.operationId, file.operationId])
    await allow(box, file, approver)
    expect((await attempted(box, file)).status).toBe('succeeded')
    expect(texts(box, 'twice.txt')).toBe('one\n')
    // Whoever writes it again afterwards keeps it.
    writeFileSync(box.folder('workspace/twice.txt'), 'two\n')
    expect(await reject(box, turn as never)).toMatchObject([{ state: 'applied' }])
    expect(texts(box, 'twice.txt')).toBe('two\n')
  })

  test('[CHG12] the control plane is killed between plan and apply: it is applied once', async () => {
    const box = only()
    const file = await edited('killed.txt')
    const agent = box.agentPid()
    signalProcess(agent, 'SIGSTOP')
    onTestFinished(() => signalProcess(agent, 'SIGCONT'))
    await allow(box, file, approver)
    expect(await reject(box, turn as never)).toMatchObject([{ state: 'planned' }])
    stack().worker.kill('SIGKILL')
    await stack().worker.start()
    expect(await reject(box, turn as never)).toMatchObject([{ operationId: file.operationId }])
    expect(texts(box, 'killed.txt')).toBe('two\n')
    signalProcess(agent, 'SIGCONT')
    expect(await attempted(box, file)).toMatchObject({ status: 'succeeded' })
    expect(texts(box, 'killed.txt')).toBe('one\n')
    expect(await reject(box, turn as never)).toMatchObject([
      { state: 'applied', operationId: file.operationId },
    ])
  })

  test('[CHG12] the control plane is killed between apply and record: it is recorded, and not done again', async () => {
    const box = only()
    const file = await edited('recorded.txt')
    const agent = box.agentPid()
    signalProcess(agent, 'SIGSTOP')
    onTestFinished(() => signalProcess(agent, 'SIGCONT'))
    await allow(box, file, approver)
    await sleep(500) // the command is on its way
    stack().worker.kill('SIGSTOP')
    signalProcess(agent, 'SIGCONT')
    await until('the agent has applied it', 20_000, () => texts(box, 'recorded.txt') === 'one\n')
    stack().worker.kill('SIGKILL')
    writeFileSync(box.folder('workspace/recorded.txt'), 'two\n')
    await stack().worker.start()
    expect(await attempted(box, file)).toMatchObject({ status: 'succeeded' })
    expect(await reject(box, turn as never)).toMatchObject([{ state: 'applied' }])
    expect(texts(box, 'recorded.txt')).toBe('two\n')
  })
})

describe('a turn of many steps', () => {
  const only = useBox(stack, () => ({ title: 'many steps' }))

  test('[CHG16] is collected while it runs, each step once, and each is what git says', async () => {
    const box = only()
    const count = 23
    const { changes } = await run(box, [
      write('n.txt', '0 of many\n'),
      ...Array.from({ length: count }, (_, at) =>
        step(change('n.txt', `${at} of`, `${at + 1} of`)),
      ),
      { text: 'Done.' },
    ])
    expect(changes.mismatches).toBe(0)
    expect(changes.files).toMatchObject([{ path: 'n.txt', operation: 'create', rejectable: true }])
    expect(changes.files[0]?.events).toHaveLength(count + 1)
    expect(changes.collects.some(({ whileRunning }) => whileRunning)).toBe(true)
    expect(changes.collects.at(-1)?.whileRunning).toBe(false)
    const reads = changes.collects.map(({ statistics }) => statistics?.snapshotReadCount ?? 0)
    expect(Math.max(...reads)).toBeLessThanOrEqual(10)
    expect(reads.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(count + 1)
    await expectGitSays(box, changes)
  })
})

describe('a store that is not as it should be', () => {
  const only = useBox(stack, () => ({ title: 'stores' }))
  const metadataOnly = (path: string) => [
    { path, operation: 'modify', rejectable: false, proofs: ['metadata-only-fallback'] },
  ]
  const edits = async (name: string, spoil: (box: Box) => void) => {
    const box = only()
    await run(box, [write(name, 'one\n'), { text: 'Done.' }])
    const { changes } = await runAnd(box, [step(change(name, 'one', 'two'))], () => spoil(box))
    expect(shape(changes)).toEqual(metadataOnly(name))
    return changes
  }

  test('[CHG3] a step that was aborted proves nothing, and the one before it does', async () => {
    const box = only()
    const turn = await box.prompt([
      write('whole.txt', 'whole\n'),
      step(
        call('edit', { filePath: 'whole.txt', oldString: 'whole', newString: 'half' }),
        call('bash', { command: 'sleep 30', description: 'Wait' }),
      ),
      { text: 'Done.' },
    ])
    await until('the edit is done', 20_000, () => texts(box, 'whole.txt') === 'half\n')
    expect((await box.post('/abort')).status).toBeLessThan(300)
    expect((await box.ended(turn)).state).toBe('aborted')
    const changes = await changesOf(box, turn)
    const [file] = changes.files
    expect(file?.events.map(({ reviewable }) => reviewable)).toEqual([true, false])
    expect(file?.rejectable).toBe(false)
    expect(codesOf(changes)).toContain('incomplete-window')
  })

  test('[CHG9] a step that names another tree than came over the link proves nothing', async () => {
    const changes = await edits('tree.txt', (box) =>
      inDatabase(box, (db) =>
        db.exec(
          `update part set data = json_set(data, '$.snapshot', '4b825dc642cb6eb9a060e54bf8d69288fbee4904')
           where id = (select max(id) from part where json_extract(data, '$.type') = 'step-start'
             and message_id in (select message_id from part where json_extract(data, '$.tool') = 'edit'))`,
        ),
      ),
    )
    expect(changes.mismatches).toBe(1)
  })

  test('[CHG3] a store that was moved behind a link is misplaced', async () => {
    const changes = await edits('moved.txt', (box) => {
      const [store = ''] = storesOf(box)
      renameSync(store, `${box.folder('home')}/elsewhere`)
      symlinkSync(`${box.folder('home')}/elsewhere`, store)
    })
    expect(codesOf(changes)).toContain('snapshot-store-misplaced')
    const [store = ''] = storesOf(only())
    rmSync(store)
    renameSync(`${only().folder('home')}/elsewhere`, store)
  })

  test('[CHG3] objects that git has collected as garbage are missing', async () => {
    const changes = await edits('garbage.txt', (box) => {
      const [gitDir = ''] = storesOf(box)
      for (const name of readdirSync(join(gitDir, 'objects')))
        if (name !== 'info') rmSync(join(gitDir, 'objects', name), { recursive: true })
    })
    expect(codesOf(changes)).toContain('object-missing')
  })

  test('[CHG4] a sandbox that was replaced after the turn has no history to backfill', async () => {
    const box = only()
    const { turn, changes } = await run(box, [write('kept.txt', 'kept\n'), bash('true')])
    await box.post('/replace', {})
    await until('the next sandbox is ready', 90_000, async () => {
      const { sandbox } = await box.view()
      box.generation = sandbox.generation
      return sandbox.generation === 2 && sandbox.state === 'ready'
    })
    const answer = await api(stack(), 'POST', `/runs/${turn.runId}/changes/backfill`, {
      mode: 'single-change',
    })
    expect(answer.json).toMatchObject({ collects: [], skipped: [{ outcome: 'no-history' }] })
    expect((await changesOf(box, turn)).fingerprint).toBe(changes.fingerprint)
    // What was proven before is still rejectable in the workspace that came along.
    const [file] = await reject(box, turn)
    await allow(box, file, approver)
    expect((await attempted(box, file)).status).toBe('succeeded')
    expect(existsSync(box.folder('workspace/kept.txt'))).toBe(false)
    const more = await run(box, [
      write('more.txt', 'one\n'),
      step(change('more.txt', 'one', 'two')),
    ])
    await expectGitSays(box, more.changes)
  })
})
