import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { give, makeExecutor, makeRepository, newAttempt, put } from '../execute-kit.ts'

function setUp() {
  const kit = makeRepository()
  const { executor, perform, site } = kit
  const write = async (targetPath: string, content: string) => {
    const attemptId = newAttempt()
    expect(await perform('write-file', { targetPath, content }, attemptId)).toMatchObject({
      status: 'succeeded',
    })
    return attemptId
  }
  const apply = async (patch: string) => {
    const attemptId = newAttempt()
    expect(await perform('apply-patch', { patch }, attemptId)).toMatchObject({ error: null })
    return attemptId
  }
  const merge = (attemptId: ReturnType<typeof newAttempt>) =>
    executor.merge({ attemptId, branch: `gantry/${attemptId}` })
  const textOf = (path: string) => {
    const whole = join(site.workspace, path)
    return existsSync(whole) ? readFileSync(whole, 'utf8') : null
  }
  return { ...kit, write, apply, merge, textOf }
}

describe('merging', { timeout: 240_000 }, () => {
  it('[EXEC9] a branch that follows HEAD becomes HEAD, and is merged again as often as asked', async () => {
    const { site, git, write, merge, textOf, root } = setUp()
    const attemptId = await write('src/new.ts', 'new\n')
    const commit = git('rev-parse', `gantry/${attemptId}`)
    const report = { merged: true, commit, conflicts: [] }
    expect(await merge(attemptId)).toEqual(report)
    expect(textOf('src/new.ts')).toBe('new\n')
    expect(git('rev-parse', 'main')).toBe(commit)
    expect(git('status', '--porcelain')).toBe('')
    expect(git('branch', '--list')).toBe('* main')
    expect(git('fsck', '--no-dangling')).toBe('')
    expect(await merge(attemptId)).toEqual(report)
    const { executor } = makeExecutor(site, join(root, 'attempts'))
    expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toEqual(report)
    expect(readdirSync(join(site.home, '.gantry-worktrees'))).toEqual([])
  })

  it('[EXEC9] a branch beside HEAD is merged with it, and what nobody committed stays', async () => {
    const { site, git, write, merge, textOf } = setUp()
    const attemptId = await write('src/new.ts', 'new\n')
    put(site, 'other.txt', 'other\n')
    git('add', '-A')
    git('commit', '-qm', 'third')
    put(site, 'kept.txt', 'mine\n')
    put(site, 'staged.txt', 'staged\n')
    git('add', 'staged.txt')
    put(site, 'untracked.txt', 'untracked\n')
    const before = git('status', '--porcelain')
    expect(await merge(attemptId)).toMatchObject({ merged: true, conflicts: [] })
    expect(git('log', '-1', '--format=%s|%an')).toBe(`Merge branch 'gantry/${attemptId}'|Gantry`)
    expect(git('rev-list', '--count', 'HEAD')).toBe('5')
    expect(git('status', '--porcelain')).toBe(before)
    expect(['src/new.ts', 'other.txt', 'kept.txt'].map(textOf)).toEqual([
      'new\n',
      'other\n',
      'mine\n',
    ])
  })

  it('[EXEC9] commits that contradict each other are named by their files, and nothing is touched', async () => {
    const { site, git, write, merge } = setUp()
    const attemptId = await write('kept.txt', 'one\nagent\nthree\n')
    put(site, 'kept.txt', 'one\nperson\nthree\n')
    git('commit', '-qam', 'third')
    const before = git('rev-parse', 'HEAD')
    expect(await merge(attemptId)).toEqual({ merged: false, commit: null, conflicts: ['kept.txt'] })
    expect([git('rev-parse', 'HEAD'), git('status', '--porcelain')]).toEqual([before, ''])
    expect(await merge(attemptId)).toMatchObject({ merged: false })
  })

  const inTheWay: [string, string, (kit: ReturnType<typeof setUp>) => void][] = [
    ['kept.txt', 'is changed', ({ site }) => put(site, 'kept.txt', 'mine\n')],
    ['kept.txt', 'is deleted', ({ run }) => run('rm', 'kept.txt')],
    [
      'kept.txt',
      'is staged otherwise',
      ({ site, git }) => {
        put(site, 'kept.txt', 'staged\n')
        git('add', 'kept.txt')
        put(site, 'kept.txt', 'one\ntwo\nthree\n')
      },
    ],
    [
      'kept.txt',
      'is changed and assumed unchanged',
      ({ site, git }) => {
        git('update-index', '--assume-unchanged', 'kept.txt')
        put(site, 'kept.txt', 'mine\n')
      },
    ],
    [
      'src/a.ts',
      'is behind a folder that became a symlink',
      ({ site, run }) => {
        run('mv', 'src', join(site.home, 'src'))
        symlinkSync(join(site.home, 'src'), join(site.workspace, 'src'))
        give(site, join(site.workspace, 'src'))
      },
    ],
    ['new/x', 'is there, untracked', ({ site }) => put(site, 'new/x', 'mine\n')],
    [
      'new/x',
      'is there, ignored',
      ({ site }) => {
        put(site, '.git/info/exclude', 'new\n')
        put(site, 'new/x', 'mine\n')
      },
    ],
    [
      'new/x',
      'is behind an ignored file',
      ({ site }) => {
        put(site, '.git/info/exclude', 'new\n')
        put(site, 'new', 'mine\n')
      },
    ],
    [
      'new',
      'is a folder with an ignored file',
      ({ site }) => {
        put(site, '.git/info/exclude', 'new\n')
        put(site, 'new/mine', 'mine\n')
      },
    ],
  ]
  it.each(inTheWay)(
    '[EXEC10] nothing is merged and nothing lost where %s %s',
    async (path, _, prepare) => {
      const kit = setUp()
      const { site, git, run, write, merge } = kit
      const attemptId = await write(path, 'agent\n')
      prepare(kit)
      const state = () => [
        git('rev-parse', 'HEAD'),
        git('ls-files', '--stage'),
        run(
          'find',
          '.',
          '-path',
          './.git',
          '-prune',
          '-o',
          '-type',
          'f',
          '-exec',
          'sha256sum',
          '{}',
          '+',
        ),
        run('find', site.home, '-name', 'a.ts', '-exec', 'sha256sum', '{}', '+'),
      ]
      const before = state()
      expect(await merge(attemptId)).toEqual({ merged: false, commit: null, conflicts: [path] })
      expect(state()).toEqual(before)
    },
  )

  it('[EXEC10] every combination of commit, branch, file and index is merged or named, and never lost', async () => {
    const values = [null, 'A\n', 'B\n', 'C\n']
    const rows = values
      .slice(0, 2)
      .flatMap((head) =>
        values
          .slice(0, 3)
          .flatMap((branch) =>
            values.flatMap((file) => values.map((index) => ({ head, branch, file, index }))),
          ),
      )
    const named = rows
      .filter(({ head, branch }) => head !== branch)
      .map((row, at) => ({ ...row, path: `f${String(at).padStart(2, '0')}` }))
    const isLost = ({ head, branch, file, index }: (typeof named)[number]) =>
      [file, index].some((value) => value !== head && value !== branch) ||
      (index === branch && file === head)
    const lost = named.filter(isLost)
    expect([named.length, lost.length]).toEqual([64, 52])

    const attempt = async (chosen: typeof named) => {
      const { site, git, run, apply, merge, textOf } = setUp()
      for (const { path, head } of chosen) if (head !== null) put(site, path, head)
      git('add', '-A')
      git('commit', '-q', '--allow-empty', '-m', 'table')
      for (const { path, branch } of chosen) {
        if (branch === null) rmSync(join(site.workspace, path), { force: true })
        else put(site, path, branch)
      }
      git('add', '-A')
      const patch = git('diff', '--cached', '--binary')
      git('reset', '-q', '--hard')
      const attemptId = await apply(`${patch}\n`)
      const paths = (staged: boolean) =>
        chosen.filter(({ index }) => (index !== null) === staged).map(({ path }) => path)
      run('git', 'rm', '-q', '--cached', '--ignore-unmatch', ...paths(false))
      for (const { path, index } of chosen) if (index !== null) put(site, path, index)
      git('add', ...paths(true))
      for (const { path, file } of chosen) {
        if (file === null) rmSync(join(site.workspace, path), { force: true })
        else put(site, path, file)
      }
      return { report: await merge(attemptId), textOf, git, again: () => merge(attemptId) }
    }

    const refused = await attempt(named)
    expect(refused.report).toEqual({
      merged: false,
      commit: null,
      conflicts: lost.map(({ path }) => path),
    })
    expect(named.map(({ path }) => refused.textOf(path))).toEqual(named.map(({ file }) => file))

    const clean = named.filter((row) => !isLost(row))
    const { report, textOf, git, again } = await attempt(clean)
    expect(report).toMatchObject({ merged: true, conflicts: [] })
    expect(clean.map(({ path }) => textOf(path))).toEqual(clean.map(({ branch }) => branch))
    expect(git('status', '--porcelain')).toBe('')
    expect(await again()).toEqual(report)
  })

  it('[EXEC11] a merge that was cut off is taken up where it stood', async () => {
    const { site, git, write, merge, textOf, root } = setUp()
    const attemptId = await write('kept.txt', 'agent\n')
    // Files written, index and HEAD not.
    put(site, 'kept.txt', 'agent\n')
    expect(await merge(attemptId)).toMatchObject({ merged: true })
    expect(git('status', '--porcelain')).toBe('')
    const next = await write('kept.txt', 'agent again\n')
    const branch = git('rev-parse', `gantry/${next}`)
    // Files and index written, HEAD not.
    git('read-tree', '-m', '-u', 'HEAD', branch)
    expect(await merge(next)).toMatchObject({ merged: true, commit: branch })
    expect([git('status', '--porcelain'), textOf('kept.txt')]).toEqual(['', 'agent again\n'])
    // All written, and the record of it lost.
    rmSync(join(root, 'attempts', `${next}.merged`))
    expect(await merge(next)).toMatchObject({ merged: true, commit: branch })
  })

  it('[EXEC9] what is merged is what was reported: a branch that was moved is refused', async () => {
    const { git, write, merge } = setUp()
    const attemptId = await write('x', 'x\n')
    git(
      'update-ref',
      `refs/heads/gantry/${attemptId}`,
      git('commit-tree', 'HEAD^{tree}', '-m', 'evil'),
    )
    await expect(merge(attemptId)).rejects.toThrow('it is no longer what was reported')
    git('branch', '-D', `gantry/${attemptId}`)
    await expect(merge(attemptId)).rejects.toThrow('it is no longer what was reported')
  })

  it('[EXEC9] nothing is merged that no attempt of this sandbox has made', async () => {
    const { git, executor, perform } = setUp()
    const attemptId = newAttempt()
    await expect(executor.merge({ attemptId, branch: 'main' })).rejects.toThrow('no attempt')
    git('branch', `gantry/${attemptId}`)
    await expect(executor.merge({ attemptId, branch: `gantry/${attemptId}` })).rejects.toThrow(
      'no attempt',
    )
    await perform('delete-file', { targetPath: 'nowhere' }, attemptId)
    await expect(executor.merge({ attemptId, branch: `gantry/${attemptId}` })).rejects.toThrow(
      'no attempt',
    )
  })

  it('[EXEC10] nothing is merged while a merge or a rebase is under way', async () => {
    const { site, git, write, merge } = setUp()
    const attemptId = await write('x', 'x\n')
    put(site, '.git/MERGE_HEAD', `${git('rev-parse', 'HEAD')}\n`)
    await expect(merge(attemptId)).rejects.toThrow('Cannot merge: a merge is under way')
  })

  it('[EXEC9] the first commit of a repository is merged, too, and beside another first commit', async () => {
    const { site, run, git, write, merge, textOf } = setUp()
    run('rm', '-rf', '.git')
    git('init', '-q', '-b', 'main')
    const [first, second] = [await write('x', 'x\n'), await write('y', 'y\n')]
    put(site, 'mine', 'mine\n')
    for (const attemptId of [first, second])
      expect(await merge(attemptId)).toMatchObject({ merged: true })
    expect(['x', 'y', 'mine', 'kept.txt'].map(textOf)).toEqual([
      'x\n',
      'y\n',
      'mine\n',
      'one\ntwo\nthree\n',
    ])
    expect(git('status', '--porcelain').split('\n')).toHaveLength(4)
  })

  it('[EXEC9] a detached HEAD moves, and no branch with it', async () => {
    const { git, write, merge } = setUp()
    git('checkout', '-q', '--detach')
    const main = git('rev-parse', 'main')
    const attemptId = await write('x', 'x\n')
    const { commit } = await merge(attemptId)
    expect([git('rev-parse', 'HEAD'), git('rev-parse', 'main')]).toEqual([commit, main])
  })
})
