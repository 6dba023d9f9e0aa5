import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Changes } from '../../../sandbox-agent/evidence/changes.ts'
import { Memory } from '../../../sandbox-agent/memory/memory.ts'
import type { Manifest } from '../../../src/contract/manifest.ts'
import type { TurnPatch } from '../../../src/contract/patch.ts'
import { openReader, temporaryFolder } from '../support.ts'

function sandbox() {
  const home = temporaryFolder()
  const workspace = join(home, 'workspace')
  mkdirSync(workspace)
  execFileSync('git', ['init', '-q'], { cwd: workspace })
  const put = (path: string, content: string) => writeFileSync(join(workspace, path), content)
  put('a.txt', 'one\n')
  const layout = { home, workspace } as Manifest['layout']
  /** As an agent of it has it; the next generation of the session has a memory of its own. */
  const start = () => {
    const memory = new Memory(join(temporaryFolder(), 'memory.json'))
    const changes = new Changes(memory, { layout }, openReader().run, {})
    const ends: (TurnPatch | null | undefined)[] = []
    const emit = changes.emitTo((kind, data) => {
      if (kind === 'turn.ended') ends.push((data as { patch?: TurnPatch | null }).patch)
    })
    const endTurn = () => {
      const end = { turnId: 't', state: 'completed', reason: null, text: null, diff: null } as const
      emit('turn.ended', end)
      return ends.at(-1)
    }
    const begin = (baseTree?: string) =>
      changes.rememberBase({ layout, ...(baseTree && { baseTree }) } as Manifest)
    return { memory, changes, endTurn, begin }
  }
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], {
      cwd: workspace,
      encoding: 'utf8',
    }).trim()
  return { workspace, home, put, start, git }
}

it('[SES15] the patch of a turn goes out with its end, and with no other', async () => {
  const { put, start, home } = sandbox()
  const { changes, endTurn, begin } = start()
  await begin()
  put('a.txt', 'two\n')
  await changes.atTurnEnd()
  expect(endTurn()?.text).toContain('+two')
  // This one never came to look at its files.
  expect(endTurn()).toBeNull()
  rmSync(join(home, '.gantry-diff.git'), { recursive: true })
  await changes.atTurnEnd().catch(() => undefined)
  expect(endTurn()?.text ?? null).toBeNull()
})

it('[SES16] a sandbox that goes on counts from the base that it is told, if all of that is there', async () => {
  const { put, start } = sandbox()
  const first = start()
  await first.begin()
  const base = first.memory.value.baseTree as string
  put('a.txt', 'two\n')

  const next = start()
  await next.begin(base)
  expect((await next.changes.diff())?.base).toBe(base)
  expect((await next.changes.diff())?.patch).toContain('+two')

  const other = start()
  await other.begin('f'.repeat(40))
  expect((await other.changes.diff())?.patch).toBe('')
  // Asked again it stays what it was.
  put('a.txt', 'three\n')
  await other.begin(base)
  expect((await other.changes.diff())?.base).not.toBe(base)
})

it.each([
  ['is removed', (_begin: () => void) => undefined],
  ['is made anew', (begin: () => void) => begin()],
])(
  '[SES10] [SES16] work stays in diff and patch if the repository of the workspace %s',
  async (_, again) => {
    const { put, start, workspace, git } = sandbox()
    put('old.txt', 'as it was\n')
    git('add', '.')
    git('commit', '-qm', 'one')
    const { changes, begin, endTurn } = start()
    await begin()
    put('a.txt', 'two\n')
    git('commit', '-qam', 'two')
    // Past the second in which git reads a file again though its entry seems to be right.
    for (const path of ['a.txt', 'old.txt']) utimesSync(join(workspace, path), 1, 1)
    await changes.diff()
    rmSync(join(workspace, '.git'), { recursive: true })
    again(() => git('init', '-q'))
    const diff = await changes.atTurnEnd()
    expect(diff?.files.map(({ path }) => path)).toEqual(['a.txt'])
    expect(diff?.patch).toContain('-one\n+two')
    expect(endTurn()?.text).toContain('-one\n+two')
  },
)

it('[SES16] a diff that git cannot make is an error, never an empty one', async () => {
  const { put, start, workspace, home, git } = sandbox()
  git('add', '.')
  git('commit', '-qm', 'one')
  const { changes, begin } = start()
  await begin()
  rmSync(join(workspace, '.git'), { recursive: true })
  const lost = execFileSync('git', ['hash-object', 'a.txt'], { cwd: workspace, encoding: 'utf8' })
  put('a.txt', 'two\n')
  const store = join(home, '.gantry-diff.git', 'objects')
  rmSync(join(store, lost.slice(0, 2), lost.trim().slice(2)))
  await expect(changes.diff()).rejects.toThrow('git diff ended with 128')
})

it('[EVR26] a diff says which commit was checked out where the session began', async () => {
  const { put, start, workspace, home, git } = sandbox()
  const empty = start()
  await empty.begin()
  expect(await empty.changes.diff()).not.toHaveProperty('commit')
  git('add', '.')
  git('commit', '-qm', 'one')
  const first = start()
  await first.begin()
  const commit = git('rev-parse', 'HEAD')
  put('a.txt', 'two\n')
  git('commit', '-qam', 'two')
  expect((await first.changes.diff())?.commit).toBe(commit)
  expect((await first.changes.atTurnEnd())?.commit).toBe(commit)
  // One that goes on sees what the one before has committed.
  const next = start()
  await next.begin(first.memory.value.baseTree as string)
  expect(await next.changes.diff()).not.toHaveProperty('commit')
  // A repository around the workspace is not the session's.
  renameSync(join(workspace, '.git'), join(home, '.git'))
  const inside = start()
  await inside.begin()
  expect(await inside.changes.diff()).not.toHaveProperty('commit')
})
