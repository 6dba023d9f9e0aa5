import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  give,
  makeExecutor,
  makePlace,
  newAttempt,
  operationOf,
  planOf,
  put,
  sandboxUser,
} from '../execute-kit.ts'
import { asRoot } from '../../../support/needs.ts'

function setUp() {
  const { root, site } = makePlace(sandboxUser)
  const { executor, uploads } = makeExecutor(site, join(root, 'attempts'))
  const perform = (operation: string, targetPath?: string, limits: object = {}) =>
    executor.execute({
      attemptId: newAttempt(),
      operation: operationOf(operation, targetPath === undefined ? {} : { targetPath }),
      plan: planOf('workspace', {}, limits),
    })
  const link = (to: string, path: string) => {
    symlinkSync(to, join(site.workspace, path))
    give(site, join(site.workspace, path))
  }
  writeFileSync(join(root, 'secret'), 'secret')
  return { root, site, perform, link, uploads, read: (path: string) => perform('read-file', path) }
}

describe('reading', () => {
  it('[EXEC1] a file is shown, by a relative or an absolute path, and a folder is listed', async () => {
    const { site, read, perform } = setUp()
    put(site, 'a/b.txt', 'text ü\n')
    put(site, 'a/\n forged', '')
    expect(await read('a/b.txt')).toMatchObject({
      status: 'succeeded',
      output: 'text ü\n',
      truncated: false,
      error: null,
      branch: null,
    })
    expect((await read(join(site.workspace, './a/../a/b.txt'))).output).toBe('text ü\n')
    expect((await perform('list-folder', 'a')).output).toBe('"\\n forged"\nb.txt')
    expect((await perform('list-folder')).output).toBe('a/')
  })

  it('[EXEC1] what is longer than the limit is cut between two characters, and says so', async () => {
    const { site, perform } = setUp()
    put(site, 'long', 'ü'.repeat(100))
    const report = await perform('read-file', 'long', { outputBytes: 51 })
    expect([report.output, report.truncated]).toEqual(['ü'.repeat(25), true])
    for (let at = 0; at < 50; at += 1) put(site, `f${at}`, '')
    expect((await perform('list-folder', '.', { outputBytes: 20 })).truncated).toBe(true)
  })

  it('[EXEC2] a file that is no text is uploaded whole and named', async () => {
    const { site, read, uploads } = setUp()
    const bytes = Buffer.from([0x89, 0x50, 0, 0xff])
    put(site, 'image.png', bytes)
    put(site, 'latin', Buffer.from([0xe4, 0x61]))
    const report = await read('image.png')
    expect(report.output).toMatch(/^Binary: 4 bytes, sha256 [0-9a-f]{64}$/)
    expect(report.files).toMatchObject([{ path: 'image.png', size: 4 }])
    expect(uploads[0]?.content).toEqual(bytes)
    expect((await read('latin')).output).toContain('Binary: 2 bytes')
  })

  it('[EXEC3] a symlink that stays inside is followed, and one that leads out is refused', async () => {
    const { root, site, link, read, perform } = setUp()
    put(site, 'real/file', 'inside\n')
    link('real', 'folder')
    link(join(site.workspace, 'real/file'), 'file')
    expect((await read('folder/file')).output).toBe('inside\n')
    expect((await read('file')).output).toBe('inside\n')
    link(root, 'out')
    link('../secret', 'relative')
    link('/proc/self/root/etc/passwd', 'magic')
    link('loop', 'loop')
    for (const path of ['out/secret', 'relative', 'magic'])
      expect(await read(path)).toMatchObject({
        status: 'failed',
        output: '',
        error: `Cannot read "${path}": it leads out of the workspace`,
      })
    expect((await perform('list-folder', 'out')).error).toContain('leads out of the workspace')
    expect((await read('loop')).error).toContain('its symlinks lead nowhere')
  })

  it.each(['../secret', '/etc/passwd', 'a/../../secret', '..'])(
    '[EXEC3] %s is outside',
    async (path) => {
      const { read } = setUp()
      expect((await read(path)).error).toBe(`Cannot read "${path}": it is outside the workspace`)
    },
  )

  it('[EXEC3] what the plan declares to belong to the session is read, and nothing by way of it', async () => {
    const { root, site } = setUp()
    const { executor } = makeExecutor(site, join(root, 'other'))
    const [file, folder] = [join(site.home, 'env.json'), join(site.home, 'outputs')]
    const read = async (targetPath: string) => {
      const { output, error } = await executor.execute({
        attemptId: newAttempt(),
        operation: operationOf('read-file', { targetPath }),
        plan: planOf('workspace', { pathConstraints: [site.workspace, file, folder] }),
      })
      return error ?? output
    }
    put(site, '../home/env.json', '{}')
    put(site, '../home/outputs/1', 'one')
    put(site, '../home/env.json.old', 'old')
    expect(await read(file)).toBe('{}')
    expect(await read(join(folder, '1'))).toBe('one')
    expect(await read(`${file}.old`)).toContain('outside the workspace')
    for (const each of [file, folder]) {
      rmSync(each, { recursive: true })
      symlinkSync(each === file ? join(root, 'secret') : root, each)
    }
    expect(await read(file)).toContain('leads out')
    expect(await read(join(folder, 'secret'))).toContain('leads out')
  })

  it('[EXEC3] a folder beside the workspace whose name begins the same is outside', async () => {
    const { root, site, link, read } = setUp()
    mkdirSync(`${site.workspace}-other`)
    writeFileSync(`${site.workspace}-other/secret`, 'secret')
    link(`${root}/workspace-other/secret`, 'link')
    expect((await read('link')).error).toContain('leads out')
  })

  it('[EXEC3] only regular files are read, and nothing waits on a pipe or touches a device', async () => {
    const { site, link, read, perform } = setUp()
    execFileSync('mkfifo', [join(site.workspace, 'pipe')])
    chmodSync(join(site.workspace, 'pipe'), 0o666)
    link('/dev/zero', 'zero')
    expect((await read('pipe')).error).toBe('Cannot read "pipe": it is not a regular file')
    expect((await read('zero')).error).toContain('leads out')
    expect((await read('.')).error).toBe('Cannot read ".": it is a folder')
    expect((await read('nowhere')).error).toBe('Cannot read "nowhere": there is no such file')
    put(site, 'file', '')
    expect((await perform('list-folder', 'file')).error).toBe(
      'Cannot list "file": it is not a folder',
    )
  })

  it('[EXEC4] a folder that is swapped for a symlink all the time never shows what is outside', async () => {
    const { root, site, link, read } = setUp()
    put(site, 'real/file', 'inside')
    link('real', 'swapped')
    mkdirSync(join(root, 'outside'))
    writeFileSync(join(root, 'outside/file'), 'secret')
    const swap = `while :; do ln -sfn real swapped; ln -sfn '${root}/outside' swapped; done`
    const child = spawn('sh', ['-c', swap], {
      cwd: site.workspace,
      stdio: 'ignore',
      ...site.owner,
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    const seen = new Map<string, number>()
    for (let time = 0; time < 100_000 && (seen.size < 2 || time < 2000); time += 1) {
      const { output, error } = await read('swapped/file')
      const what = output + (error ?? '')
      seen.set(what, (seen.get(what) ?? 0) + 1)
    }
    expect([...seen.keys()].filter((what) => what.includes('secret'))).toEqual([])
    expect(seen.get('inside')).toBeGreaterThan(0)
    expect(seen.get('Cannot read "swapped/file": it leads out of the workspace')).toBeGreaterThan(0)
  })

  it('[EXEC4] a workspace that was replaced by a symlink shows nothing', async () => {
    const { root, site, read } = setUp()
    execFileSync('mv', [site.workspace, `${site.workspace}.old`])
    symlinkSync(root, site.workspace)
    const report = await read('secret')
    expect([report.status, report.output]).toEqual(['failed', ''])
  })

  asRoot('[EXEC5] root reads nothing that the sandbox itself may not', async () => {
    const { root, site, read } = setUp()
    chmodSync(join(root, 'secret'), 0o600)
    linkSync(join(root, 'secret'), join(site.workspace, 'hard'))
    expect((await read('hard')).error).toBe(`Cannot read "hard": the sandbox's user may not`)
    put(site, 'own', 'own')
    chmodSync(join(site.workspace, 'own'), 0o200)
    expect((await read('own')).error).toContain('may not')
  })

  it('[EXEC1] no descriptor stays open', async () => {
    const { site, link, read, perform } = setUp()
    put(site, 'a', 'a')
    link('/etc/passwd', 'out')
    const open = () => readdirSync('/proc/self/fd').length
    const before = open()
    for (let time = 0; time < 50; time += 1) {
      for (const path of ['a', 'out', '.', 'nowhere']) await read(path)
      await perform('list-folder', '.')
    }
    expect(open() - before).toBeLessThan(5)
  })
})
