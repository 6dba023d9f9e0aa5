import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { DiffOptions } from '../../../sandbox-agent/evidence/diff-store.ts'
import {
  isWholeDiffBase,
  readDiffBase,
  takeDiff,
  takeDiffPatch,
} from '../../../sandbox-agent/evidence/diff.ts'
import { patchChecksum } from '../../../src/contract/patch.ts'
import { openReader, temporaryFolder } from '../support.ts'

function repository(withCommit = true) {
  const root = temporaryFolder()
  const workspace = join(root, 'workspace')
  mkdirSync(workspace)
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: workspace })
  const put = (path: string, content: string) => writeFileSync(join(workspace, path), content)
  git('init', '-q')
  put('kept.txt', 'one\ntwo\n')
  put('gone.txt', 'gone\n')
  put('old name.txt', 'a\nb\nc\nd\ne\n')
  if (withCommit) {
    git('add', '-A')
    git('commit', '-qm', 'first')
  }
  const options: DiffOptions = {
    workspace,
    gitDir: join(root, 'diff.git'),
    run: openReader().run,
    environment: { PATH: process.env['PATH'] ?? '', HOME: root },
    excluded: ['opencode.json'],
  }
  return { root, workspace, git, put, options }
}

/** The nth time that files are added, git dies and leaves its lock, as one that is ended for taking too long. */
function killedAtAdd(root: string, options: DiffOptions, nth: number): DiffOptions {
  const path = options.environment['PATH'] ?? ''
  const folder = join(root, 'bin')
  mkdirSync(folder)
  const script = `#!/bin/sh
case " $* " in *" add --all "*)
  echo >> "${root}/adds"
  if [ "$(wc -l < "${root}/adds")" -eq ${nth} ]; then
    : > "${options.gitDir}/index.lock"
    kill -9 $$
  fi
esac
PATH="${path}" exec git "$@"
`
  writeFileSync(join(folder, 'git'), script, { mode: 0o755 })
  return { ...options, environment: { ...options.environment, PATH: `${folder}:${path}` } }
}

describe('the diff', () => {
  it("[SES15] hides nothing for what the sandbox's user has written into its home", async () => {
    const { root, put, options } = repository()
    const base = await readDiffBase(options)
    mkdirSync(join(root, '.config/git'), { recursive: true })
    writeFileSync(join(root, '.config/git/ignore'), '*\n')
    writeFileSync(join(root, '.config/git/attributes'), '* -diff\n')
    put('new.txt', 'new\n')
    put('kept.txt', 'two\n')
    const { files, patch } = await takeDiff(options, base)
    expect(files.map(({ path }) => path)).toEqual(['kept.txt', 'new.txt'])
    expect(patch).toContain('+new')
  })

  it('holds changed, new, deleted and renamed files, commits or not, without what is excluded or ignored', async () => {
    const { workspace, git, put, options } = repository()
    const base = await readDiffBase(options)
    put('kept.txt', 'one\n2\n')
    put('new.txt', 'new\n')
    rmSync(join(workspace, 'gone.txt'))
    renameSync(join(workspace, 'old name.txt'), join(workspace, 'new name.txt'))
    put('opencode.json', '{}')
    put('.gitignore', 'ignored\n')
    put('ignored', 'x')
    git('add', 'new.txt')
    git('commit', '-qm', 'second')
    const diff = await takeDiff(options, base)
    expect(diff.files).toEqual([
      { path: '.gitignore', status: 'added', additions: 1, deletions: 0 },
      { path: 'gone.txt', status: 'deleted', additions: 0, deletions: 1 },
      { path: 'kept.txt', status: 'modified', additions: 1, deletions: 1 },
      { path: 'new name.txt', status: 'renamed', additions: 0, deletions: 0 },
      { path: 'new.txt', status: 'added', additions: 1, deletions: 0 },
    ])
    expect(diff.patch).toContain('-two\n+2\n')
    expect(diff.truncated).toBe(false)
  })

  it('is against the files that were there at the start, committed or not', async () => {
    const { put, options } = repository(false)
    const base = await readDiffBase(options)
    expect((await takeDiff(options, base)).files).toEqual([])
    put('later.txt', 'x\n')
    const diff = await takeDiff(options, base)
    expect(diff.files.map(({ path, status }) => [path, status])).toEqual([['later.txt', 'added']])
  })

  it('is cut at a line when it is too long, and says so', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    put('long.txt', 'a line\n'.repeat(10_000))
    const diff = await takeDiff(options, base, 5000)
    expect(diff.truncated).toBe(true)
    expect(diff.patch.length).toBeLessThanOrEqual(5000)
    expect(diff.patch.endsWith('\n')).toBe(true)
    expect(diff.files).toEqual([
      { path: 'long.txt', status: 'added', additions: 10_000, deletions: 0 },
    ])
  })

  it("runs none of the repository's own hooks, filters and monitors", async () => {
    const { root, workspace, git, put, options } = repository()
    const canary = join(root, 'ran')
    git('config', 'core.fsmonitor', `touch ${canary}; false`)
    git('config', 'filter.evil.clean', `touch ${canary}; cat`)
    git('config', 'diff.external', `touch ${canary}`)
    const base = await readDiffBase(options)
    put('.gitattributes', '* filter=evil\n')
    put('kept.txt', 'changed\n')
    await takeDiff(options, base)
    expect(existsSync(canary)).toBe(false)
    expect(
      execFileSync('git', ['diff', '--cached', '--name-only'], { cwd: workspace }).toString(),
    ).toBe('')
  })
})

describe('the store of the diff', () => {
  it('[SES15] takes several questions at once: each sees all files', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    for (let file = 0; file < 200; file++) put(`new-${file}.txt`, `${file}\n`.repeat(500))
    const [diff, patch, again] = await Promise.all([
      takeDiff(options, base),
      takeDiffPatch(options, base, 1_000_000),
      takeDiff(options, base),
    ])
    expect([diff.files.length, patch.files, again.files.length]).toEqual([200, 200, 200])
  })

  it('[SES15] outlives a git that was killed over it', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    writeFileSync(join(options.gitDir, 'index.lock'), '')
    put('new.txt', 'new\n')
    expect((await takeDiff(options, base)).files.map(({ path }) => path)).toEqual(['new.txt'])
    expect((await takeDiffPatch(options, base, 5000)).files).toBe(1)
  })

  it('[SES15] outlives a git that is killed while it adds', async () => {
    const { put, root, options } = repository()
    const base = await readDiffBase(options)
    put('kept.txt', 'changed\n')
    const patch = await takeDiffPatch(killedAtAdd(root, options, 1), base, 5000)
    expect(patch).toMatchObject({ base, tree: base, files: 0 })
    expect((await takeDiffPatch(options, base, 5000)).files).toBe(1)
  })

  it('[SES15] whose index is torn reads every file again', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    put('new.txt', 'new\n')
    writeFileSync(join(options.gitDir, 'index'), 'torn')
    expect((await takeDiff(options, base)).files.map(({ path }) => path)).toEqual(['new.txt'])
  })

  it('[SES15] that cannot be read says so: an empty diff would hide the work', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    put('new.txt', 'new\n')
    rmSync(join(options.gitDir, 'objects'), { recursive: true })
    writeFileSync(join(options.gitDir, 'objects'), '')
    await expect(takeDiff(options, base)).rejects.toThrow('cannot read the files')
    await expect(takeDiffPatch(options, base, 5000)).rejects.toThrow('cannot read the files')
  })
})

describe('the patch of a turn', () => {
  /** What `git apply` makes of it on a clean checkout of the first commit. */
  function applied({ workspace }: ReturnType<typeof repository>, patch: string): string {
    const clean = join(temporaryFolder(), 'clean')
    execFileSync('git', ['clone', '-q', workspace, clean])
    execFileSync('git', ['checkout', '-q', 'first'], { cwd: clean })
    execFileSync('git', ['apply', '--index', '-'], { cwd: clean, input: patch })
    return execFileSync('git', ['write-tree'], { cwd: clean, encoding: 'utf8' }).trim()
  }

  it('[SES15] applies to a clean checkout by git apply: text, binary, untracked, renamed, deleted, executable, odd names and encodings', async () => {
    const world = repository()
    const { workspace, git, put, options } = world
    git('tag', 'first')
    const base = await readDiffBase(options)
    put('kept.txt', 'one\n2')
    rmSync(join(workspace, 'gone.txt'))
    renameSync(join(workspace, 'old name.txt'), join(workspace, 'new näme\t.txt'))
    writeFileSync(join(workspace, 'image.png'), Buffer.from([0, 1, 2, 255, 0, 10, 13]))
    put('run.sh', '#!/bin/sh\n')
    chmodSync(join(workspace, 'run.sh'), 0o755)
    symlinkSync('kept.txt', join(workspace, 'link'))
    git('add', '-A')
    git('commit', '-qm', 'second')
    put('untracked.txt', 'new\r\n')
    const patch = await takeDiffPatch(options, base, 100_000)
    expect(patch).toMatchObject({ base, files: 7, checksum: patchChecksum(patch.text ?? '') })
    expect(applied(world, patch.text ?? '')).toBe(patch.tree)

    // Latin-1: as text its bytes would be lost on the way.
    writeFileSync(join(workspace, 'kept.txt'), Buffer.from('caf\xe9\n', 'latin1'))
    const latin = await takeDiffPatch(options, base, 100_000)
    expect(latin.text).toContain('GIT binary patch')
    expect(applied(world, latin.text ?? '')).toBe(latin.tree)
  })

  it('[SES15] is never a part: what is too large is null, with its whole size', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    put('long.txt', 'a line\n'.repeat(10_000))
    const patch = await takeDiffPatch(options, base, 5000)
    expect(patch).toMatchObject({ text: null, files: 1 })
    expect(patch.bytes).toBeGreaterThan(70_000)
  })

  it('[SES15] is too large if it is so as JSON, in which it travels', async () => {
    const { put, options } = repository()
    const base = await readDiffBase(options)
    put('quotes.txt', `${'"'.repeat(70)}\n`.repeat(50))
    const { bytes, text } = await takeDiffPatch(options, base, 5000)
    expect([bytes < 5000, text]).toEqual([true, null])
    expect((await takeDiffPatch(options, base, 10_000)).text).toContain('quotes.txt')
  })

  it('[SES15] counts from an earlier base only if all of that is there', async () => {
    const { workspace, git, put, options } = repository()
    const base = await readDiffBase(options)
    put('kept.txt', 'changed\n')
    const own = await readDiffBase(options)
    expect(await isWholeDiffBase(options, base, own)).toBe(true)
    expect(await isWholeDiffBase(options, 'f'.repeat(40), own)).toBe(false)
    expect(await isWholeDiffBase(options, '--output=x', own)).toBe(false)
    // The names are there, and the content of one is not.
    put('kept.txt', 'half done\n')
    const half = await readDiffBase(options)
    const blob = git('hash-object', 'kept.txt').toString().trim()
    put('kept.txt', 'changed again\n')
    const present = await readDiffBase(options)
    expect(await isWholeDiffBase(options, half, present)).toBe(true)
    rmSync(join(options.gitDir, 'objects', blob.slice(0, 2), blob.slice(2)))
    expect(await isWholeDiffBase(options, half, present)).toBe(false)
    // A new history without the old objects, as a new clone may have.
    rmSync(join(workspace, '.git'), { recursive: true })
    rmSync(options.gitDir, { recursive: true })
    git('init', '-q')
    expect(await isWholeDiffBase(options, base, await readDiffBase(options))).toBe(false)
  })
})

describe('git repositories inside the workspace', () => {
  /** One with this file, with or without a commit. */
  function nested(world: ReturnType<typeof repository>, path: string, withCommit: boolean) {
    world.git('init', '-q', path)
    world.put(`${path}/f`, `of ${path}\n`)
    if (!withCommit) return
    world.git('-C', path, 'add', '-A')
    world.git('-C', path, 'commit', '-qm', 'one')
  }
  const paths = (files: { path: string }[]) => files.map(({ path }) => path)

  it('[SES18] are in diff and patch with their files, with a commit or without, however deep; what they ignore is not', async () => {
    const world = repository()
    const { put, workspace, options } = world
    const base = await readDiffBase(options)
    put('z.txt', 'z\n')
    mkdirSync(join(workspace, 'deep/er'), { recursive: true })
    nested(world, 'bare', false)
    nested(world, 'deep/er/full', true)
    nested(world, 'bare/in ner', false)
    nested(world, 'bare/in ner/most', true)
    world.git('init', '-q', 'empty')
    put('deep/er/full/.gitignore', 'ignored\n')
    put('deep/er/full/ignored', 'x')
    put('deep/er/full/uncommitted', 'u\n')
    const all = [
      'bare/f',
      'bare/in ner/f',
      'bare/in ner/most/f',
      'deep/er/full/.gitignore',
      'deep/er/full/f',
      'deep/er/full/uncommitted',
      'z.txt',
    ]
    const diff = await takeDiff(options, base)
    expect([paths(diff.files), diff.leftOut]).toEqual([all, []])
    const patch = await takeDiffPatch(options, base, 100_000)
    expect([patch.files, patch.leftOut]).toEqual([all.length, []])

    const clean = temporaryFolder()
    execFileSync('git', ['clone', '-q', workspace, clean])
    execFileSync('git', ['apply', '-'], { cwd: clean, input: patch.text ?? '' })
    expect(readFileSync(join(clean, 'bare/in ner/most/f'), 'utf8')).toBe('of bare/in ner/most\n')

    // Work in them goes on, and is taken back.
    put('bare/f', 'changed\n')
    rmSync(join(workspace, 'deep/er/full/uncommitted'))
    rmSync(join(workspace, 'bare/in ner'), { recursive: true })
    world.git('-C', 'bare', 'add', '-A')
    world.git('-C', 'bare', 'commit', '-qm', 'first')
    const later = await takeDiff(options, base)
    expect(paths(later.files)).toEqual([all[0], all[3], all[4], all[6]])
    expect(later.patch).toContain('+changed')
  })

  it('[SES18] count from where the session began', async () => {
    const world = repository()
    nested(world, 'lib', true)
    const base = await readDiffBase(world.options)
    expect((await takeDiff(world.options, base)).files).toEqual([])
    world.put('lib/f', 'changed\n')
    expect((await takeDiffPatch(world.options, base, 100_000)).text).toContain(
      '-of lib\n+changed\n',
    )
  })

  it('[SES18] that would make diff or patch too large are left out of it by name; the other work is there', async () => {
    const world = repository()
    const base = await readDiffBase(world.options)
    world.put('kept.txt', 'changed\n')
    nested(world, 'clone', true)
    world.put('clone/large', 'a line\n'.repeat(2000))
    const leftOut = [{ path: 'clone', reason: expect.stringContaining('too large') as unknown }]
    const diff = await takeDiff(world.options, base, 5000)
    expect([paths(diff.files), diff.truncated, diff.leftOut]).toEqual([
      ['kept.txt'],
      false,
      leftOut,
    ])
    const patch = await takeDiffPatch(world.options, base, 5000)
    expect(patch).toMatchObject({ files: 1, leftOut, checksum: patchChecksum(patch.text ?? '') })
    expect(patch.text).toContain('+changed')
    // Nothing else: then it is said to be too large.
    world.put('kept.txt', 'one\ntwo\n')
    expect(await takeDiffPatch(world.options, base, 5000)).toMatchObject({
      text: null,
      leftOut: [],
    })
    expect(await takeDiff(world.options, base, 5000)).toMatchObject({
      truncated: true,
      leftOut: [],
    })
  })

  it('[SES18] whose files take too long are named, and hide nothing else', async () => {
    const world = repository()
    const options = { ...world.options, nestedTimeoutMs: 200 }
    const base = await readDiffBase(options)
    world.put('kept.txt', 'changed\n')
    nested(world, 'bare', false)
    nested(world, 'full', true)
    // Hashing this takes seconds.
    truncateSync(join(world.workspace, 'bare/f'), 2 ** 31)
    for (let look = 0; look < 2; look++) {
      const diff = await takeDiff(options, base)
      expect(paths(diff.leftOut ?? [])).toEqual(['bare', 'full'])
      expect(paths(diff.files)).toEqual(['full', 'kept.txt'])
    }
  })

  it('[SES18] over which a git is killed are named, and hide nothing else', async () => {
    const world = repository()
    const base = await readDiffBase(world.options)
    world.put('kept.txt', 'changed\n')
    nested(world, 'bare', false)
    const options = killedAtAdd(world.root, world.options, 2)
    const diff = await takeDiff(options, base)
    expect([paths(diff.leftOut ?? []), paths(diff.files)]).toEqual([['bare'], ['kept.txt']])
  })

  it('[SES18] that are submodules stay commits, and are named if there are files in them', async () => {
    const world = repository()
    const { git, put, options } = world
    const origin = repository()
    git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', origin.workspace, 'mod')
    git('commit', '-qm', 'submodule')
    git('submodule', '--quiet', 'deinit', '-f', 'mod')
    const base = await readDiffBase(options)
    expect(await takeDiff(options, base)).toMatchObject({ files: [], leftOut: [] })
    git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'update', '--init')
    put('mod/new.txt', 'new\n')
    put('kept.txt', 'changed\n')
    const leftOut = [{ path: 'mod', reason: expect.stringContaining('submodule') as unknown }]
    const diff = await takeDiff(options, base)
    expect([paths(diff.files), diff.leftOut]).toEqual([['kept.txt'], leftOut])
    expect((await takeDiffPatch(options, base, 5000)).leftOut).toEqual(leftOut)
  })
})

it('[SES18] the list of what is left out is bounded: with the patch it fits into one message', async () => {
  const root = temporaryFolder()
  const workspace = join(root, 'w')
  mkdirSync(workspace)
  execFileSync('git', ['init', '-q'], { cwd: workspace })
  const environment = { PATH: process.env['PATH'] ?? '', HOME: root }
  const gitDir = join(root, 'd.git')
  const options = { workspace, gitDir, run: openReader().run, environment, excluded: [] }
  const base = await readDiffBase(options)
  const deep = Array.from({ length: 9 }, () => 'd'.repeat(230)).join('/')
  for (let n = 0; n < 40; n++) {
    const folder = join(workspace, deep, `r${n}`)
    mkdirSync(join(folder, '.git'), { recursive: true })
    cpSync(join(workspace, '.git'), join(folder, '.git'), { recursive: true })
    writeFileSync(join(folder, 'f'), 'x')
  }
  // No time for the files of any of them: this one takes git far longer than it has.
  writeFileSync(join(workspace, deep, 'r0', 'large'), randomBytes(16 * 1024 * 1024))
  const patch = await takeDiffPatch({ ...options, nestedTimeoutMs: 1 }, base, 1000)
  const leftOut = patch.leftOut ?? []
  expect(JSON.stringify(leftOut).length).toBeLessThan(40 * 1024)
  expect(leftOut.at(-1)).toEqual({ path: '…', reason: expect.stringMatching(/^And \d+ more$/) })
})
