import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { bundleText } from '../../../sandbox-agent/evidence/bundle-text.ts'
import { openlyHeld, runHeld } from '../../../sandbox-agent/enclosure/held.ts'
import { historyRecordText } from '../../../sandbox-agent/evidence/history-rows.ts'
import { type EvidenceFailure, evidenceRecordText } from '../../../src/contract/evidence.ts'
import { edit, sha256, Store, write } from './store-kit.ts'

const mebibyte = 1024 * 1024
const textOf = (text: string) => ({
  ...{ state: 'text', text, sha256: sha256(text), sizeBytes: Buffer.byteLength(text) },
  mode: '100644',
})
const unavailable = (code: string) => ({ state: 'unavailable', code })
interface Failed {
  failures: { code: string }[]
}
/** On a busy machine a read may be slow, and says so: that is shown by its own test. */
const failuresOf = ({ failures }: Failed) => failures.filter(({ code }) => code !== 'read-slow')
const codes = (bundle: Failed) => failuresOf(bundle).map(({ code }) => code)

describe('what a collect brings', () => {
  test('[CHG1] messages, tool parts, steps with their trees, and both sides of what is unresolved', async () => {
    const store = new Store().begin()
    const create = store.step([write('a.txt', 'one\n', false)])
    const change = store.step([write('a.txt', 'one\nzwei ü\n', true)])
    store.step([{ tool: 'bash', input: { command: 'secret words' } }])
    const { bundle, next } = await store.collect()

    expect(next).toBeNull()
    expect(failuresOf(bundle)).toEqual([])
    expect(bundle.capability).toMatchObject({
      schema: { supported: true },
      writeAheadFile: 'read',
      session: { id: 'ses_own', worktree: store.workspace, directory: store.workspace, vcs: 'git' },
      store: { state: 'found', fingerprint: 'git-trees:0:sha1:alone' },
      frozen: false,
    })
    expect(bundle.messages.map(({ id, parentId }) => [id, parentId]).slice(0, 2)).toEqual([
      [create, 'msg_prompt'],
      [change, 'msg_prompt'],
    ])
    expect(bundle.parts.map(({ tool, order, input }) => [tool, order, input])).toEqual([
      ['write', 1, { filePath: 'a.txt', content: 'one\n' }],
      ['write', 1, { filePath: 'a.txt', content: 'one\nzwei ü\n' }],
      ['bash', 1, null],
    ])
    expect(bundle.parts[0]?.metadata).toEqual({ exists: false, truncated: false, files: null })
    const [, second] = bundle.windows
    expect(second).toMatchObject({ messageId: change, startOrder: 0, finishOrder: 2 })
    expect(second?.changed).toEqual(['a.txt'])
    // The first tells both sides by itself, so one window was read.
    expect(bundle.files).toEqual([
      {
        ...{ windowId: second?.id, from: second?.from, to: second?.to, path: 'a.txt' },
        ...{ before: textOf('one\n'), after: textOf('one\nzwei ü\n') },
      },
    ])
    expect(bundle.reads).toMatchObject([
      { windowId: second?.id, timedOut: false, bytes: 4 + Buffer.byteLength('one\nzwei ü\n') },
    ])
  })

  test('[CHG1] the workspace as it is now is not looked at', async () => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    store.step([edit('a.txt', 'one', 'two', 'two\n')])
    store.write('a.txt', 'something else\n')
    const { bundle } = await store.collect()
    expect(bundle.files).toMatchObject([{ before: textOf('one\n'), after: textOf('two\n') }])
  })

  test('[CHG1] a sub-agent has its messages here while its task ran, and not what it did for another turn', async () => {
    const store = new Store().begin()
    store.addSession('ses_child', store.session)
    const early = store.step([edit('b.txt', '', 'x', 'x\n')], { session: 'ses_child', parent: 'x' })
    const parent = store.addMessage('msg_task', { role: 'assistant', parentID: 'msg_prompt' })
    store.addMessage('msg_sub_prompt', { role: 'user' }, 'ses_child')
    const first = store.lastAt
    const own = store.step([edit('b.txt', 'x', 'y', 'y\n')], {
      ...{ session: 'ses_child', parent: 'msg_sub_prompt' },
    })
    const state = {
      ...{ status: 'completed', input: {}, metadata: { sessionId: 'ses_child' } },
      time: { start: first, end: first + 500 },
    }
    store.addPart(parent, { type: 'tool', tool: 'task', callID: 'c', state })
    const { bundle } = await store.collect()
    expect(bundle.messages.map(({ id }) => id)).toEqual(['msg_task', own])
    expect(bundle.messages.map(({ id }) => id)).not.toContain(early)
    expect(bundle.files).toMatchObject([{ path: 'b.txt', after: textOf('y\n') }])
  })

  test('[CHG2] a turn of more than ten such steps comes in several bundles, and no step twice', async () => {
    const store = new Store().begin()
    store.write('a.txt', '0\n')
    for (let n = 1; n <= 23; n += 1) store.step([edit('a.txt', `${n - 1}`, `${n}`, `${n}\n`)])
    const read: string[] = []
    let after: string | null = null
    const sizes: number[] = []
    do {
      const { bundle, next } = await store.collect({ after })
      read.push(...bundle.reads.map(({ windowId }) => windowId))
      sizes.push(bundle.reads.length)
      after = next
    } while (after !== null)
    expect(sizes).toEqual([10, 10, 3])
    expect(new Set(read).size).toBe(23)
  })

  test('[CHG16] while the turn runs only what is done is read, up to the message that was named', async () => {
    const store = new Store().begin()
    store.write('a.txt', '0\n')
    const ids = [1, 2, 3].map((n) => store.step([edit('a.txt', `${n - 1}`, `${n}`, `${n}\n`)]))
    const bounded = await store.collect({ until: ids[1] as string })
    expect(bounded.bundle.messages.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    expect(bounded.bundle.reads).toHaveLength(2)
    expect(bounded.next).toBe(ids[1])
    const open = store.step([edit('a.txt', '3', '4', '4\n')], { isAborted: true })
    const later = store.step([edit('a.txt', '4', '5', '5\n')])
    const { bundle, next } = await store.collect({ after: ids[1] as string, until: later })
    expect(bundle.messages.map(({ id }) => id)).toEqual(ids.slice(2))
    expect(bundle.parts.map(({ messageId }) => messageId)).toEqual(ids.slice(2))
    expect(bundle.windows.map(({ messageId }) => messageId)).toEqual(ids.slice(2))
    expect(next).toBe(ids[2])
    const none = await store.collect({ after: ids[2] as string, until: later })
    expect([none.bundle.messages, none.next]).toEqual([[], null])
    const rest = await store.collect({ after: ids[2] as string })
    expect(rest.bundle.messages.map(({ id }) => id)).toEqual([open, later])
  })

  test('[CHG2] without windows only the history is read', async () => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    store.step([edit('a.txt', 'one', 'two', 'two\n')])
    const asked: string[] = []
    const { bundle } = await store.collectBy(
      (program, ...rest) => {
        asked.push(program)
        return runHeld(openlyHeld(undefined), program, ...rest)
      },
      { maxWindows: 0 },
    )
    expect(asked).toEqual([process.execPath])
    expect(bundle).toMatchObject({ files: [], reads: [], parts: [{ tool: 'edit' }] })
  })

  test('[CHG1] a tool that ran beside it in another session is named with its paths', async () => {
    const store = new Store().begin()
    store.addSession('ses_other', null)
    store.write('a.txt', '1\n')
    const other = store.addMessage('msg_other', { role: 'assistant' }, 'ses_other')
    const own = store.addMessage('msg_own', { role: 'assistant', parentID: 'msg_prompt' })
    store.addPart(own, { type: 'step-start', snapshot: store.snapshot() })
    const state = { status: 'completed', input: { filePath: 'a.txt', content: 'x' }, metadata: {} }
    store.addPart(other, { type: 'tool', tool: 'write', callID: 'c', state }, 'ses_other')
    store.addPart(own, { type: 'step-finish', snapshot: store.snapshot() })
    const { bundle } = await store.collect()
    expect(bundle.neighbours).toMatchObject([
      { messageId: other, sessionId: 'ses_other', tool: 'write', paths: ['a.txt'] },
    ])
  })
})

describe('a history that is longer than one bundle', () => {
  const parts = (store: Store, message: string, count: number, session?: string) => {
    const state = { status: 'completed', input: {}, metadata: {}, time: { start: 1, end: 2 } }
    store.db.exec('begin')
    const ids = Array.from({ length: count }, (_, n) =>
      store.addPart(message, { type: 'tool', tool: 'read', callID: `c${n}`, state }, session),
    )
    store.db.exec('commit')
    return ids
  }
  const pages = async (store: Store) => {
    const bundles: Awaited<ReturnType<Store['collect']>>['bundle'][] = []
    let after: string | null = null
    do {
      const { bundle, next } = await store.collect({ after })
      bundles.push(bundle)
      after = next
    } while (after !== null)
    return bundles
  }

  test('[CHG18] comes on several pages, each message whole and once, however many rows it has', async () => {
    const store = new Store().begin()
    const told: string[] = []
    // The ids go down while the time goes up: whoever pages by ids loses some.
    for (const id of ['msg_d', 'msg_c', 'msg_b', 'msg_a']) {
      store.addMessage(id, { role: 'assistant', parentID: 'msg_prompt', time: { completed: 1 } })
      told.push(...parts(store, id, 1500))
    }
    store.write('a.txt', '1\n')
    const last = store.step([edit('a.txt', '1', '2', '2\n')])
    const bundles = await pages(store)
    const found = bundles.flatMap((bundle) => bundle.parts.map(({ id }) => id))
    expect(found.slice(0, told.length)).toEqual(told)
    expect(found).toHaveLength(told.length + 1)
    expect(bundles.flatMap(codes)).toEqual([])
    expect(bundles.at(-1)?.messages.map(({ id }) => id)).toContain(last)
    expect(bundles.at(-1)?.files).toMatchObject([{ after: textOf('2\n') }])
  })

  test.each([2300, 4500])(
    '[CHG18] a message of %i tool parts is cut, says so, and the next one is reached',
    async (count) => {
      const store = new Store().begin()
      store.write('a.txt', '1\n')
      const large = store.step([edit('a.txt', '1', '2', '2\n')])
      const told = parts(store, large, count)
      const next = store.step([edit('a.txt', '2', '3', '3\n')])
      const [first, second, ...more] = await pages(store)
      expect(more).toEqual([])
      expect(first?.parts).toHaveLength(2000)
      const failures = failuresOf(first!) as EvidenceFailure[]
      expect(new Set(failures.map(({ code }) => code))).toEqual(new Set(['part-limit']))
      // Every part that is not here is named: it was not taken away.
      const left = told.slice(1999)
      expect(failures.map(({ partId }) => partId)).toEqual([null, ...left])
      expect(second?.messages.map(({ id }) => id)).toEqual([next])
      expect(codes(second!)).toEqual([])
    },
  )

  test('[CHG18] a message whose rows are no tools and too many is cut, too', async () => {
    const store = new Store().begin()
    const message = store.step([write('a.txt', 'one\n', false)])
    store.db.exec('begin')
    for (let n = 0; n < 4100; n += 1) store.addPart(message, { type: 'step-start' })
    store.db.exec('commit')
    const [bundle, ...more] = await pages(store)
    expect(more.map(({ messages }) => messages)).toEqual([[]])
    expect(bundle?.parts.map(({ tool }) => tool)).toEqual(['write'])
    expect(codes(bundle!)).toContain('part-limit')
  })

  test('[CHG18] more tools beside it than a bundle holds are said to be cut', async () => {
    const store = new Store().begin()
    store.addSession('ses_other', null)
    store.write('a.txt', '1\n')
    const own = store.step([edit('a.txt', '1', '2', '2\n')])
    const other = store.addMessage('msg_other', { role: 'assistant' }, 'ses_other')
    parts(store, other, 2001, 'ses_other')
    store.db.exec(`update part set time_created = 0, time_updated = 9999999999999
      where message_id = '${other}'`)
    const { bundle } = await store.collect()
    expect(bundle.messages.map(({ id }) => id)).toEqual([own])
    expect(bundle.neighbours).toHaveLength(2000)
    expect(codes(bundle)).toEqual(['part-limit'])
  })
})

describe('what cannot be had is named', () => {
  const sides: [string, string | Buffer | null, string | Buffer | null, object, object][] = [
    ['binary', 'a\n', Buffer.from('a\0b'), textOf('a\n'), unavailable('binary')],
    ['control byte', 'a\n', 'a\u0001b', textOf('a\n'), unavailable('binary')],
    ['other encoding', 'a\n', Buffer.from([0xe4, 10]), textOf('a\n'), unavailable('invalid-utf8')],
    ['too large', 'a\n', 'x'.repeat(mebibyte + 1), textOf('a\n'), unavailable('too-large')],
    ['exactly a mebibyte', '', 'x'.repeat(mebibyte), textOf(''), textOf('x'.repeat(mebibyte))],
    ['new', null, '', { state: 'absent' }, textOf('')],
    ['deleted', 'a\n', null, textOf('a\n'), { state: 'absent' }],
  ]
  test.each(sides)('[CHG3] a side that is %s', async (_, was, is, before, after) => {
    const store = new Store().begin()
    store.write('f.txt', was)
    store.step([{ tool: 'edit', input: { filePath: 'f.txt' }, files: { 'f.txt': is } }])
    const { bundle } = await store.collect()
    expect(bundle.files).toMatchObject([{ path: 'f.txt', before, after }])
  })

  test('[CHG3] a file that became a folder, one below a file, and a symlink', async () => {
    const store = new Store().begin()
    store.write('f', 'text\n')
    store.write('g', 'text\n')
    symlinkSync('/etc/passwd', join(store.workspace, 'link'))
    store.step([
      { tool: 'edit', input: { filePath: 'f' }, files: { f: null, 'f/inner.txt': 'x\n' } },
      { tool: 'edit', input: { filePath: 'g/below.txt' } },
      { tool: 'edit', input: { filePath: 'link' } },
    ])
    const { bundle } = await store.collect()
    expect(bundle.files).toMatchObject([
      { path: 'f', before: textOf('text\n'), after: unavailable('path-is-folder') },
      { path: 'g/below.txt', before: { state: 'absent' }, after: { state: 'absent' } },
      { path: 'link', before: unavailable('not-a-file'), after: unavailable('not-a-file') },
    ])
  })

  test('[CHG3] texts beyond four mebibytes stay out, and smaller ones after them come in', async () => {
    const store = new Store().begin()
    const large = 'x'.repeat(mebibyte - 1)
    const files = Object.fromEntries(
      ['a', 'b', 'c', 'd', 'e'].map((name) => [name, `${large}${name}`]),
    )
    store.write('z', 'small\n')
    store.step([
      ...Object.entries(files).map(([filePath, text]) => ({
        ...{ tool: 'edit', input: { filePath }, files: { [filePath]: text } },
      })),
      edit('z', 'small', 'little', 'little\n'),
    ])
    const { bundle } = await store.collect()
    expect(bundle.files.map(({ after }) => ('code' in after ? after.code : after.state))).toEqual([
      'text',
      'text',
      'text',
      'text',
      'total-budget',
      'total-budget',
    ])
    expect(bundle.reads[0]?.bytes).toBeLessThanOrEqual(4 * mebibyte)
  })

  test('[CHG3] the hundred and first file of a step', async () => {
    const store = new Store().begin()
    const names = Array.from({ length: 101 }, (_, n) => `f${n}`)
    const files = names.map((filePath) => ({ filePath, type: 'add' }))
    const after = Object.fromEntries(names.map((name) => [name, `${name}\n`]))
    const metadata = { files }
    store.step([{ tool: 'apply_patch', input: { patchText: '' }, metadata, files: after }])
    const { bundle } = await store.collect()
    expect(bundle.files).toHaveLength(100)
    expect(failuresOf(bundle)).toMatchObject([{ code: 'file-limit', path: 'f100' }])
  })

  test('[CHG3] an aborted step, a row that is no JSON, and a part without a call', async () => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    const message = store.step([edit('a.txt', 'one', 'two', 'two\n')], { isAborted: true })
    const broken = store.addPart(message, '{"type":"tool","tool":')
    const nameless = store.addPart(message, { type: 'tool', tool: 'write', state: {} })
    const { bundle } = await store.collect()
    expect(bundle.windows).toMatchObject([{ to: null, finishOrder: null }])
    expect(bundle.parts).toMatchObject([{ tool: 'edit', status: 'completed' }])
    expect(failuresOf(bundle)).toEqual([
      { code: 'malformed-row', partId: broken, windowId: null, path: null },
      { code: 'malformed-row', partId: nameless, windowId: null, path: null },
      { code: 'incomplete-window', windowId: bundle.windows[0]?.id, partId: null, path: null },
    ])
  })

  const stores: [string, (store: Store) => void, string[]][] = [
    [
      'objects gone',
      ({ snapshots }) => rmSync(`${snapshots}/objects`, { recursive: true }),
      ['snapshot-store-unsupported'],
    ],
    [
      'objects pruned',
      (store) => {
        rmSync(`${store.snapshots}/objects`, { recursive: true })
        mkdirSync(`${store.snapshots}/objects`)
      },
      ['object-missing'],
    ],
    [
      'store gone',
      ({ snapshots }) => rmSync(snapshots, { recursive: true }),
      ['snapshot-store-missing'],
    ],
    [
      'store of another worktree',
      (store) => {
        const other = store.placeOf('/elsewhere')
        renameSync(store.snapshots, other)
        store.git(store.workspace, 'init', '-q', '--bare', store.snapshots)
      },
      ['object-foreign'],
    ],
    [
      'store outside its place',
      (store) => {
        renameSync(store.snapshots, join(store.root, 'away'))
        symlinkSync(join(store.root, 'away'), store.snapshots)
      },
      ['snapshot-store-misplaced'],
    ],
    [
      'another worktree',
      ({ db }) => db.exec(`update project set worktree = '/elsewhere'`),
      ['workspace-mismatch'],
    ],
    ['no project', ({ db }) => db.exec('delete from project'), ['session-identity-missing']],
    [
      'no such prompt',
      ({ db }) => db.exec(`delete from message where id = 'msg_prompt'`),
      ['session-identity-missing'],
    ],
    [
      'another schema',
      ({ db }) => db.exec('alter table part rename column data to content'),
      ['sqlite-schema-unsupported'],
    ],
  ]
  test.each(stores)('[CHG3] %s', async (_, spoil, expected) => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    store.step([edit('a.txt', 'one', 'two', 'two\n')])
    spoil(store)
    const { bundle } = await store.collect()
    expect(codes(bundle)).toEqual(expected)
    expect(bundle.files).toEqual([])
  })

  test('[CHG3] a project whose id has changed keeps its old place', async () => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    store.step([edit('a.txt', 'one', 'two', 'two\n')])
    const old = store.placeOf(store.workspace, 'b'.repeat(40))
    mkdirSync(join(old, '..'), { recursive: true })
    renameSync(store.snapshots, old)
    const { bundle } = await store.collect()
    expect(bundle.files).toMatchObject([{ before: textOf('one\n'), after: textOf('two\n') }])
  })

  test('[CHG3] a write-ahead file that cannot be read is not taken for an empty one', async () => {
    const store = new Store().begin()
    store.step([write('a.txt', 'one\n', true)])
    const path = join(store.dataDir, 'opencode.db-wal')
    renameSync(path, `${path}.kept`)
    writeFileSync(path, 'not a log of SQLite')
    const { bundle } = await store.collect()
    expect(bundle.capability.writeAheadFile).toBe('unreadable')
    expect(codes(bundle)).toEqual(['history-unreadable'])
    rmSync(path)
    mkdirSync(path)
    expect((await store.collect()).bundle.capability.writeAheadFile).toBe('unreadable')
    rmSync(path, { recursive: true })
    renameSync(`${path}.kept`, path)
    expect((await store.collect()).bundle.capability.writeAheadFile).toBe('read')
  })

  test('[CHG3] a database that is none, or is a pipe, ends the collect in time', async () => {
    const store = new Store().begin()
    store.db.close()
    Object.defineProperty(store, 'db', { value: new DatabaseSync(':memory:') })
    rmSync(join(store.dataDir, 'opencode.db-wal'), { force: true })
    const path = join(store.dataDir, 'opencode.db')
    writeFileSync(path, 'no database')
    expect(codes((await store.collect()).bundle)).toEqual(['sqlite-schema-unsupported'])
    rmSync(path)
    store.git(store.root, 'version')
    const { execFileSync } = await import('node:child_process')
    execFileSync('mkfifo', [path])
    chmodSync(path, 0o666)
    expect(codes((await store.collect()).bundle)).toEqual(['history-unreadable'])
  })

  test('[CHG3] a git that takes longer than three seconds is ended, and later steps are read', async () => {
    const store = new Store().begin()
    store.write('a.txt', '1\n')
    store.step([edit('a.txt', '1', '2', '2\n')])
    store.step([edit('a.txt', '2', '3', '3\n')])
    let isFirst = true
    const { bundle } = await store.collectBy((program, args, options) => {
      const isSlow = program === 'git' && isFirst
      if (program === 'git') isFirst = false
      return isSlow
        ? runHeld(openlyHeld(undefined), 'sleep', ['10'], options)
        : runHeld(openlyHeld(undefined), program, args, options)
    })
    const [first, second] = bundle.windows
    expect(bundle.failures.map(({ code }) => code)).toEqual(['read-timeout', 'read-slow'])
    expect(bundle.reads).toMatchObject([
      { windowId: first?.id, timedOut: true, bytes: 0 },
      { windowId: second?.id, timedOut: false },
    ])
    expect(bundle.files).toMatchObject([{ windowId: second?.id, after: textOf('3\n') }])
  })

  test('[CHG3] snapshots that stand still by a nested repository are said to, for the turns since then', async () => {
    const store = new Store().begin()
    store.step([write('a.txt', 'one\n', false)])
    const at = store.lastAt
    const line = (time: number) =>
      `timestamp=${new Date(time).toISOString()} level=WARN message="failed to add snapshot files" exitCode=128\n`
    const log = join(store.dataDir, 'log', 'opencode.log')
    writeFileSync(log, line(at - 1000))
    expect((await store.collect()).bundle.capability.frozen).toBe(false)
    writeFileSync(log, line(at - 1000) + line(at + 1))
    expect((await store.collect()).bundle.capability.frozen).toBe(true)
  })

  test('[CHG3] a blob that is not what its hash says', async () => {
    const store = new Store().begin()
    store.write('a.txt', 'one\n')
    store.step([edit('a.txt', 'one', 'two', 'two\n')])
    const hash = store.git(store.workspace, 'hash-object', 'a.txt')
    const path = `${store.snapshots}/objects/${hash.slice(0, 2)}/${hash.slice(2)}`
    const { deflateSync } = await import('node:zlib')
    rmSync(path)
    writeFileSync(path, deflateSync(Buffer.from('blob 4\0evil')))
    const { bundle } = await store.collect()
    const said = bundle.files.map(({ after }) => ('code' in after ? after.code : after.state))
    expect([...said, ...codes(bundle)].join()).toMatch(/object-(unreadable|missing)/)
    expect(JSON.stringify(bundle)).not.toContain('evil')
  })
})

test('[CHG9] what is read of a tool later has the hash that was told when it was done', async () => {
  const store = new Store().begin()
  const file = { filePath: '/w/ü "a".txt', type: 'update', patch: 'left out', additions: 1 }
  const metadata: Record<string, unknown>[] = [
    {},
    { exists: true, truncated: false, diagnostics: { a: [1] } },
    { exists: false, truncated: true },
    { exists: 'yes', truncated: null, files: 'none' },
    { files: [file, { ...file, type: 7 }] },
    { files: [{ filePath: '' }] },
    { files: [] },
  ]
  const inputs: unknown[] = [
    { filePath: 'a.txt', content: '\ufeffa\r\nb\u2028\u0000😀 \\u00e9' },
    { n: [1, 1.5, -0, 1e21, true, null], deep: { b: 1, a: '' } },
    {},
    ['no object'],
  ]
  const states = metadata.flatMap((each) => inputs.map((input) => ({ input, metadata: each })))
  store.step(states.map((state) => ({ tool: 'apply_patch', ...state })))
  const { parts } = (await store.collect()).bundle
  expect(parts.map((part) => evidenceRecordText(part))).toEqual(states.map(historyRecordText))
  expect(parts.map(({ recordHash }) => recordHash)).toEqual(
    states.map((state) => createHash('sha256').update(historyRecordText(state)).digest('hex')),
  )
  expect(new Set(states.map(historyRecordText)).size).toBeGreaterThan(12)
})

test('[CHG3] inputs beyond what a bundle holds are left out whole, with the name of their file', async () => {
  const store = new Store().begin()
  const long = 'x'.repeat(1.5 * mebibyte)
  for (const name of ['a', 'b', 'c', 'd']) store.step([write(name, long, true)])
  const { bundle } = await store.collect()
  const sent = JSON.parse(bundleText(bundle)) as typeof bundle
  expect(sent.parts.map(({ inputTruncated }) => inputTruncated)).toEqual([false, false, true, true])
  expect(sent.parts[3]?.input).toEqual({ filePath: 'd' })
  // Told by its hash what it was, so that its name cannot be changed in the records.
  expect(sent.parts.map(({ recordHash }) => recordHash)).toEqual(
    bundle.parts.map((part) => createHash('sha256').update(evidenceRecordText(part)).digest('hex')),
  )
})

test('[CHG3] an input that is too long to be read has the name of its file, and no hash', async () => {
  const store = new Store().begin()
  const bash = { tool: 'bash', input: { command: 'true' } }
  store.step([write('a.txt', 'x'.repeat(2 * mebibyte), true), bash])
  const { parts } = (await store.collect()).bundle
  expect(parts).toMatchObject([
    { input: { filePath: 'a.txt' }, inputTruncated: true, recordHash: null },
    { input: null, inputTruncated: false },
  ])
  expect(parts[1]).not.toHaveProperty('recordHash')
})
