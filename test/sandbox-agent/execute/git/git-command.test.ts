import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkGitArguments } from '../../../../sandbox-agent/execute/git/arguments.ts'
import { makeRepository, newAttempt, put } from '../execute-kit.ts'

describe('git arguments', () => {
  it.each([
    [''],
    ['-c alias.x=!id x'],
    ['-C / status'],
    ['--exec-path=/tmp status'],
    ['--git-dir=/tmp/x status'],
    ['--config-env=a=b log'],
    ['-p log'],
    ['toString'],
    ['push'],
    ['fetch --upload-pack=id'],
    ['clone ext::id'],
    ['config core.pager id'],
    ['rebase -x id'],
    ['bisect run id'],
    ['submodule foreach id'],
    ['filter-branch'],
    ['difftool -x id'],
    ['archive --output=x'],
    ['reset --hard HEAD~1'],
    ['checkout main'],
    ['commit --amend'],
    ['commit -F /etc/passwd'],
    ['commit -aF /etc/passwd'],
    ['commit --fil=/etc/passwd'],
    ['commit -t/etc/passwd'],
    ['merge -F /etc/passwd main'],
    ['grep -O x'],
    ['grep -Oid x'],
    ['grep --open-files-in-pager=id x'],
    ['grep --open=id x'],
    ['grep --no-index root /etc'],
    ['grep --no-ind root'],
    ['grep -f /etc/passwd'],
    ['blame --contents /etc/passwd x'],
    ['blame -S x y'],
    ['diff --no-index a b'],
    ['diff --no-inde a b'],
    ['diff /etc/passwd /etc/hosts'],
    ['diff -- /etc/passwd kept.txt'],
    ['diff ../../secret kept.txt'],
    ['diff --output=x'],
    ['diff --submodule=diff'],
    ['diff --submod=diff'],
    ['log -p --submodule'],
    ['show --ext-diff'],
    ['diff --ext'],
    ['diff --textconv'],
    ['diff --ignore-submodules=none'],
    ['grep --recurse-submodules x'],
    ['diff --outpu=x'],
    ['log --output x'],
    ['add --pathspec-from-file=/etc/passwd'],
    ['branch new'],
    ['branch -v new'],
    ['branch -D main'],
    ['tag v1'],
    ['tag -F x -l'],
  ])('[EXEC19] git %s is refused', (line) => {
    expect(() => checkGitArguments(line.split(' '))).toThrow(/^Cannot run git/)
  })

  it.each([
    ['status --porcelain', 'reads'],
    ['log --oneline -5 main..HEAD -- src', 'reads'],
    ['diff main...dev -- ./a', 'reads'],
    ['diff --stat HEAD~1', 'reads'],
    ['grep -eOpen src', 'reads'],
    ['branch', 'reads'],
    ['branch -a -v', 'reads'],
    ['branch --list gantry', 'reads'],
    ['tag --contains HEAD', 'reads'],
    ['commit -amFix -- a', 'writes'],
    ['rm -r src', 'writes'],
    ['restore --source=HEAD~1 a', 'writes'],
  ])('[EXEC19] git %s is allowed and %s', (line, use) => {
    expect(checkGitArguments(line.split(' '))).toBe(use)
  })
})

describe('git', () => {
  it('[EXEC20] what only looks sees the workspace as it is, and leaves even its index alone', async () => {
    const { site, git, perform } = makeRepository()
    git('tag', 'v1')
    git('branch', 'other', 'HEAD~1')
    put(site, 'kept.txt', 'changed\n')
    put(site, 'untracked', 'x')
    const index = git('ls-files', '--stage', '--debug')
    const look = async (...args: string[]) => {
      const report = await perform('git', { args })
      expect(report).toMatchObject({ status: 'succeeded', branch: null, files: [] })
      return report.output
    }
    expect(await look('status', '--short', '--branch')).toBe('## main\n M kept.txt\n?? untracked\n')
    expect(await look('diff', '--stat')).toContain('kept.txt')
    expect(await look('log', '--format=%s', 'other..v1')).toBe('second\n')
    expect(await look('branch')).toBe('* main\n  other\n')
    expect(await look('grep', '-n', 'a =', '--', '*.ts')).toBe('src/a.ts:1:export const a = 1\n')
    expect(git('ls-files', '--stage', '--debug')).toBe(index)
    expect(git('branch', '--list')).toBe('* main\n  other')
  })

  it('[EXEC20] what changes something does so in a checkout of its own, and its commit is on the branch', async () => {
    const { site, git, perform, executor } = makeRepository()
    put(site, 'kept.txt', 'mine\n')
    const [moved, committed] = [newAttempt(), newAttempt()]
    const report = await perform('git', { args: ['mv', 'src/a.ts', 'src/b.ts'] }, moved)
    expect(report).toMatchObject({ status: 'succeeded', branch: `gantry/${moved}`, exitCode: 0 })
    expect(git('diff', '--name-status', '-M', 'HEAD', `gantry/${moved}`)).toBe(
      'R100\tsrc/a.ts\tsrc/b.ts',
    )
    await perform('git', { args: ['commit', '--allow-empty', '-m', `it's "empty"`] }, committed)
    expect(git('log', '-1', '--format=%s|%an', `gantry/${committed}`)).toBe(`it's "empty"|Gantry`)
    for (const attemptId of [moved, committed])
      expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toMatchObject({
        merged: true,
      })
    expect(git('status', '--porcelain')).toBe(' M kept.txt')
  })

  it('[EXEC20] a command that fails leaves no branch', async () => {
    const { git, perform } = makeRepository()
    const report = await perform('git', { args: ['rm', 'nowhere'] })
    expect(report).toMatchObject({ status: 'failed', branch: null, exitCode: 128 })
    expect(report.output).toContain('did not match any files')
    expect(git('branch', '--list')).toBe('* main')
    expect((await perform('git', { args: ['revert', 'main~9'] })).status).toBe('failed')
    expect((await perform('git', { args: ['push'] })).error).toContain('Cannot run git "push"')
  })

  it('[EXEC20] another branch can be merged and a commit reverted', async () => {
    const { site, git, perform, executor } = makeRepository()
    git('checkout', '-q', '-b', 'feature')
    put(site, 'feature.txt', 'feature\n')
    git('add', '-A')
    git('commit', '-qm', 'feature')
    git('checkout', '-q', 'main')
    put(site, 'main.txt', 'main\n')
    git('add', '-A')
    git('commit', '-qm', 'main')
    for (const args of [
      ['merge', '--no-edit', 'feature'],
      ['revert', '--no-edit', 'HEAD~1'],
    ]) {
      const attemptId = newAttempt()
      expect(await perform('git', { args }, attemptId)).toMatchObject({ error: null })
      expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toMatchObject({
        merged: true,
      })
    }
    expect(git('ls-files')).toBe('feature.txt\nkept.txt\nlater.txt\nsrc/a.ts')
  })

  it('[EXEC20] a shallow clone works, and a broken reference stops nothing', async () => {
    const { site, run, git, perform } = makeRepository()
    run('git', 'clone', '-q', '--depth=1', `file://${site.workspace}`, join(site.home, 'shallow'))
    run('rm', '-rf', '.git')
    run('mv', join(site.home, 'shallow/.git'), '.git')
    put(site, '.git/refs/heads/broken', `${'1'.repeat(40)}\n`)
    expect((await perform('git', { args: ['log', '--format=%s'] })).output).toContain('second\n')
    expect(await perform('write-file', { targetPath: 'x', content: 'x' })).toMatchObject({
      error: null,
    })
    expect(git('rev-parse', '--is-shallow-repository')).toBe('true')
  })

  it('[EXEC20] a lock that somebody else holds is named and not broken', async () => {
    const { site, git, perform, executor } = makeRepository()
    const attemptId = newAttempt()
    await perform('write-file', { targetPath: 'x', content: 'x' }, attemptId)
    writeFileSync(join(site.workspace, '.git/index.lock'), '')
    await expect(executor.merge({ attemptId, branch: `gantry/${attemptId}` })).rejects.toThrow(
      'index.lock',
    )
    expect(existsSync(join(site.workspace, '.git/index.lock'))).toBe(true)
    expect([git('log', '-1', '--format=%s'), git('status', '--porcelain')]).toEqual(['second', ''])
  })

  it('[EXEC8] no program of a repository inside the workspace is run, whatever its settings are', async () => {
    const { site, git, run, perform } = makeRepository()
    const canary = join(site.home, 'ran')
    run('git', 'init', '-q', '-b', 'main', 'inner')
    const inner = (...args: string[]) =>
      git('-C', 'inner', '-c', 'user.name=x', '-c', 'user.email=x@y.z', ...args)
    put(site, 'inner/.gitattributes', '* diff=evil filter=evil\n')
    put(site, 'inner/x', 'one\n')
    inner('add', '-A')
    inner('commit', '-qm', 'one')
    put(
      site,
      '.gitmodules',
      '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n',
    )
    git('add', '-A')
    git('commit', '-qm', 'with a submodule')
    put(site, 'inner/x', 'two\n')
    inner('commit', '-qam', 'two')
    put(site, 'inner/x', 'three\n')
    for (const key of [
      'diff.external',
      'diff.evil.textconv',
      'diff.evil.command',
      'filter.evil.clean',
      'core.fsmonitor',
    ])
      inner('config', key, `touch ${canary}; cat`)
    for (const args of [
      ['status'],
      ['status', '--porcelain=v2'],
      ['diff'],
      ['diff', 'HEAD'],
      ['diff', '-p', '--stat'],
      ['log', '-p', '-2'],
      ['show', 'HEAD'],
      ['diff-tree', '-p', 'HEAD~1', 'HEAD'],
      ['grep', 'three'],
      ['ls-files'],
    ])
      expect([args, (await perform('git', { args })).error ?? 'Exit code 1']).toEqual([
        args,
        'Exit code 1',
      ])
    expect(existsSync(canary)).toBe(false)
    // The settings bite where nothing holds git back.
    git('diff', '--submodule=diff', '--ext-diff')
    expect(existsSync(canary)).toBe(true)
  })
})
