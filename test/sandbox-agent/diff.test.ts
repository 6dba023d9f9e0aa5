import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type DiffOptions, readBaseTree, takeDiff } from '../../sandbox-agent/diff.ts'
import { temporaryFolder } from './support.ts'

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
    owner: undefined,
    environment: { PATH: process.env['PATH'] ?? '', HOME: root },
    excluded: ['opencode.json'],
  }
  return { root, workspace, git, put, options }
}

describe('the diff', () => {
  it('holds changed, new, deleted and renamed files, commits or not, without what is excluded or ignored', async () => {
    const { workspace, git, put, options } = repository()
    const base = await readBaseTree(options)
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
    const base = await readBaseTree(options)
    expect((await takeDiff(options, base)).files).toEqual([])
    put('later.txt', 'x\n')
    const diff = await takeDiff(options, base)
    expect(diff.files.map(({ path, status }) => [path, status])).toEqual([['later.txt', 'added']])
  })

  it('is cut at a line when it is too long, and says so', async () => {
    const { put, options } = repository()
    const base = await readBaseTree(options)
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
    const base = await readBaseTree(options)
    put('.gitattributes', '* filter=evil\n')
    put('kept.txt', 'changed\n')
    await takeDiff(options, base)
    expect(existsSync(canary)).toBe(false)
    expect(
      execFileSync('git', ['diff', '--cached', '--name-only'], { cwd: workspace }).toString(),
    ).toBe('')
  })
})
