import { existsSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { give, makeRepository, newAttempt, put } from '../execute-kit.ts'

describe('edits', () => {
  it('[EXEC6] an edit is a commit on a branch of its own, and the workspace is as before', async () => {
    const { site, git, perform, uploads } = makeRepository()
    put(site, 'kept.txt', 'dirty\n')
    const attemptId = newAttempt()
    const before = git('status', '--porcelain', '--branch')
    const report = await perform(
      'write-file',
      { targetPath: 'src/new.ts', content: 'new\n' },
      attemptId,
    )
    expect(report).toMatchObject({
      status: 'succeeded',
      error: null,
      branch: `gantry/${attemptId}`,
    })
    expect(report.output).toContain('src/new.ts')
    expect(report.output).toContain('uncommitted changes of the workspace are not in it')
    expect(git('status', '--porcelain', '--branch')).toBe(before)
    expect(git('show', `gantry/${attemptId}:src/new.ts`)).toBe('new')
    expect(git('show', `gantry/${attemptId}:kept.txt`)).toBe('one\ntwo\nthree')
    expect(git('log', '-1', '--format=%an <%ae>', `gantry/${attemptId}`)).toBe(
      'Gantry <gantry@localhost>',
    )
    expect(git('rev-parse', `gantry/${attemptId}^`)).toBe(git('rev-parse', 'HEAD'))
    expect(report.files).toHaveLength(1)
    expect(uploads[0]?.content.toString()).toContain('+new')
    expect(readdirSync(join(site.home, '.gantry-worktrees'))).toEqual([])
  })

  it('[EXEC6] the diff is kept as a patch that can be applied', async () => {
    const { site, git, run, perform, uploads } = makeRepository()
    put(site, 'binary', Buffer.from([0, 1, 2, 255]))
    git('add', '-A')
    git('commit', '-qm', 'binary')
    await perform('delete-file', { targetPath: 'binary' })
    put(site, '../home/diff.patch', uploads[0]?.content ?? '')
    run('git', 'apply', '--index', join(site.home, 'diff.patch'))
    expect(git('status', '--porcelain')).toBe('D  binary')
  })

  it('[EXEC6] files are written, deleted and patched, and keep their modes', async () => {
    const { site, git, run, perform } = makeRepository()
    run('chmod', '+x', 'kept.txt')
    git('commit', '-qam', 'mode')
    const [written, removed, patched] = [newAttempt(), newAttempt(), newAttempt()]
    await perform(
      'write-file',
      { targetPath: join(site.workspace, 'kept.txt'), content: 'x\n' },
      written,
    )
    await perform('delete-file', { targetPath: './src/../later.txt' }, removed)
    const patch =
      '--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-export const a = 1\n+export const a = 2'
    expect(await perform('apply-patch', { patch }, patched)).toMatchObject({ status: 'succeeded' })
    expect(git('ls-tree', `gantry/${written}`, 'kept.txt')).toContain('100755')
    expect(git('ls-tree', '--name-only', `gantry/${removed}`)).not.toContain('later.txt')
    expect(git('show', `gantry/${patched}:src/a.ts`)).toBe('export const a = 2')
  })

  it('[EXEC6] an edit that changes nothing has no branch', async () => {
    const { perform, git } = makeRepository()
    const report = await perform('write-file', { targetPath: 'later.txt', content: 'later\n' })
    expect(report).toMatchObject({
      status: 'succeeded',
      branch: null,
      files: [],
      output: 'Nothing changed\n',
    })
    expect(git('branch', '--list')).toBe('* main')
  })

  it.each([
    ['write-file', { targetPath: '../x', content: '' }, 'outside the workspace'],
    ['write-file', { targetPath: '/etc/passwd', content: '' }, 'outside the workspace'],
    ['write-file', { targetPath: '.git/config', content: '' }, 'belongs to git itself'],
    ['write-file', { targetPath: 'sub/.GIT/config', content: '' }, 'belongs to git itself'],
    ['write-file', { targetPath: 'src', content: '' }, 'Cannot write "src"'],
    ['write-file', { targetPath: 'kept.txt/below', content: '' }, 'Cannot write "kept.txt/below"'],
    ['delete-file', { targetPath: 'nowhere' }, 'no such file in the last commit'],
    ['delete-file', { targetPath: 'src' }, 'no such file in the last commit'],
    ['apply-patch', { patch: 'nonsense' }, 'Cannot apply the patch'],
    [
      'apply-patch',
      { patch: '--- a/x\n+++ b/../../evil\n@@ -0,0 +1 @@\n+x\n' },
      'Cannot apply the patch',
    ],
    [
      'apply-patch',
      { patch: '--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n' },
      'Cannot apply the patch',
    ],
  ])('[EXEC7] %s of %o is refused', async (operation, fields, error) => {
    const { perform, git } = makeRepository()
    const before = git('for-each-ref')
    const report = await perform(operation, fields)
    expect(report.status).toBe('failed')
    expect(report.error).toContain(error)
    expect(git('for-each-ref')).toBe(before)
  })

  it('[EXEC7] a patch that was decided on for one target changes no other', async () => {
    const { perform } = makeRepository()
    const patch = '--- a/later.txt\n+++ b/later.txt\n@@ -1 +1 @@\n-later\n+x\n'
    expect(await perform('apply-patch', { patch, targetPath: 'src' })).toMatchObject({
      error: 'Cannot apply the patch: it changes "later.txt", not only "src"',
    })
    expect(await perform('apply-patch', { patch, targetPath: 'later.txt' })).toMatchObject({
      error: null,
    })
  })

  it('[EXEC7] a patch changes no file that its text does not name', async () => {
    const { perform, git } = makeRepository()
    const before = git('for-each-ref')
    // To git only the date at the end is no part of the name.
    const patch =
      '--- a/later.txt\tx\t2020-01-01\n+++ b/later.txt\tx\t2020-01-01\n@@ -0,0 +1 @@\n+x\n'
    expect((await perform('apply-patch', { patch })).error).toBe(
      'Cannot apply the patch: it changes "later.txt\tx", which it does not name',
    )
    expect(git('for-each-ref')).toBe(before)
  })

  it('[EXEC6] [EXEC7] whatever git shows as a patch is applied: names, modes, binary and empty files', async () => {
    const { site, git, run, perform } = makeRepository()
    const commit = () => {
      git('add', '-A')
      git('commit', '-qm', 'names')
    }
    for (const name of ['ü "x"\t.txt', 'a b.txt', 'x b/x b.txt', 'moved', 'empty', 'run'])
      put(site, name, `${name}\n--- a\n+++ b\n-- a\n`)
    commit()
    const base = git('rev-parse', 'HEAD')
    for (const name of ['ü "x"\t.txt', 'a b.txt', 'x b/x b.txt']) put(site, name, '')
    put(site, 'binary', Buffer.from([0, 1, 2, 255]))
    put(site, 'é/new file', '-- x\n')
    run('mv', 'moved', 'moved to')
    run('chmod', '+x', 'run')
    commit()
    const patch = run('git', 'diff', '--binary', '-M', base, 'HEAD')
    git('reset', '-q', '--hard', base)
    const attemptId = newAttempt()
    expect(await perform('apply-patch', { patch }, attemptId)).toMatchObject({ error: null })
    expect(
      git('show', '--name-only', '--no-renames', '--format=', `gantry/${attemptId}`).split('\n'),
    ).toHaveLength(8)
  })

  it('[EXEC7] nothing is written through a symlink, whether committed or put there since', async () => {
    const { root, site, git, perform } = makeRepository()
    symlinkSync(root, join(site.workspace, 'out'))
    give(site, join(site.workspace, 'out'))
    git('add', '-A')
    git('commit', '-qm', 'link')
    const below = await perform('write-file', { targetPath: 'out/evil', content: 'x' })
    expect(below.error).toContain('Cannot write "out/evil"')
    expect((await perform('write-file', { targetPath: 'out', content: 'x' })).error).toContain(
      'symlink',
    )
    const patch = '--- /dev/null\n+++ b/out/evil\n@@ -0,0 +1 @@\n+x\n'
    expect((await perform('apply-patch', { patch })).error).toContain('Cannot apply the patch')
    expect(existsSync(join(root, 'evil'))).toBe(false)
  })

  it('[EXEC7] a git folder that leads elsewhere is refused', async () => {
    const { root, site, git, run, perform } = makeRepository()
    const other = join(root, 'home', 'other')
    run('git', 'init', '-q', other)
    run('mv', '.git', join(site.home, 'moved.git'))
    put(site, '.git', `gitdir: ${other}/.git\n`)
    expect((await perform('write-file', { targetPath: 'x', content: 'x' })).error).toContain(
      'not a git repository with a folder of its own',
    )
    run('rm', '.git')
    symlinkSync(join(site.home, 'moved.git'), join(site.workspace, '.git'))
    expect((await perform('write-file', { targetPath: 'x', content: 'x' })).error).toContain(
      'not a git repository with a folder of its own',
    )
    run('rm', '.git')
    run('mv', join(site.home, 'moved.git'), '.git')
    expect(git('branch', '--list')).toBe('* main')
    expect(run('git', '-C', other, 'for-each-ref')).toBe('')
  })

  it('[EXEC8] none of the hooks, filters, monitors and commands of a repository is run', async () => {
    const { site, git, run, executor, perform } = makeRepository()
    const canary = join(site.home, 'ran')
    const evil = `touch ${canary}; cat`
    for (const hook of [
      'pre-commit',
      'post-commit',
      'reference-transaction',
      'post-index-change',
      'post-checkout',
      'post-merge',
      'post-rewrite',
    ]) {
      put(site, `.git/hooks/${hook}`, `#!/bin/sh\ntouch ${canary}\n`)
      run('chmod', '+x', `.git/hooks/${hook}`)
    }
    put(site, '.gitattributes', '*.ts filter=evil diff=evil merge=evil\n')
    git('-c', 'core.hooksPath=/dev/null', 'add', '-A')
    git('-c', 'core.hooksPath=/dev/null', 'commit', '-qm', 'attributes')
    for (const [key, value] of [
      ['core.fsmonitor', evil],
      ['core.sshCommand', evil],
      ['core.pager', evil],
      ['core.editor', evil],
      ['core.alternateRefsCommand', evil],
      ['core.hooksPath', join(site.workspace, '.git/hooks')],
      ['filter.evil.clean', evil],
      ['filter.evil.smudge', evil],
      ['filter.evil.process', evil],
      ['filter.evil.required', 'true'],
      ['diff.external', evil],
      ['diff.evil.textconv', evil],
      ['diff.evil.command', evil],
      ['merge.evil.driver', evil],
      ['gpg.program', evil],
      ['commit.gpgSign', 'true'],
      ['alias.status', `!${evil}`],
      ['credential.helper', `!${evil}`],
      ['trailer.x.command', evil],
      ['uploadpack.packObjectsHook', evil],
      ['remote.origin.url', `ext::sh -c "${evil}"`],
      ['remote.origin.promisor', 'true'],
      ['extensions.partialClone', 'origin'],
      ['interactive.diffFilter', evil],
      ['sequence.editor', evil],
    ] as const)
      git('config', key, value)
    const [edited, moved] = [newAttempt(), newAttempt()]
    expect(
      await perform('write-file', { targetPath: 'new.txt', content: 'x\n' }, edited),
    ).toMatchObject({ error: null })
    for (const args of [
      ['status'],
      ['diff'],
      ['log', '-p'],
      ['grep', 'one'],
      ['blame', 'kept.txt'],
      ['show', '--show-signature'],
    ])
      expect(await perform('git', { args })).toMatchObject({ error: null })
    expect(await perform('git', { args: ['mv', 'later.txt', 'moved.txt'] }, moved)).toMatchObject({
      error: null,
    })
    for (const attemptId of [edited, moved])
      expect(await executor.merge({ attemptId, branch: `gantry/${attemptId}` })).toMatchObject({
        merged: true,
        conflicts: [],
      })
    expect(existsSync(canary)).toBe(false)
    expect(readFileSync(join(site.workspace, 'moved.txt'), 'utf8')).toBe('later\n')
  })

  it('[EXEC8] a file with a filter is not changed, since its filter is not run', async () => {
    const { site, git, perform } = makeRepository()
    put(site, '.gitattributes', '*.bin filter=lfs\n')
    git('add', '-A')
    git('commit', '-qm', 'lfs')
    const error = 'Cannot change "a.bin": it has the filter "lfs", which is not run'
    expect(await perform('write-file', { targetPath: 'a.bin', content: 'x' })).toMatchObject({
      error,
    })
    put(site, 'a.bin', 'x')
    git('add', '-A')
    git('commit', '-qm', 'bin')
    expect(await perform('git', { args: ['mv', 'a.bin', 'b.bin'] })).toMatchObject({
      status: 'failed',
    })
  })

  it('[EXEC6] a repository without a commit is edited, too, and one that is none says so', async () => {
    const { site, run, perform } = makeRepository()
    run('rm', '-rf', '.git')
    expect((await perform('write-file', { targetPath: 'x', content: 'x' })).error).toContain(
      'not a git repository',
    )
    run('git', 'init', '-q', '-b', 'main')
    const attemptId = newAttempt()
    expect(
      await perform('write-file', { targetPath: 'x', content: 'x\n' }, attemptId),
    ).toMatchObject({ error: null })
    expect(run('git', 'log', '--format=%s%p', `gantry/${attemptId}`)).toBe('gantry: write-file x')
    expect(statSync(join(site.workspace, '.git')).isDirectory()).toBe(true)
  })
})
