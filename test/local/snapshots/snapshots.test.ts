import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { binary, root as repository } from '../../../local/binaries.ts'
import { findProcesses, isProcessStopped } from '../../../local/processes/processes.ts'
import { claimUids } from '../../../local/users/uids.ts'
import { sandboxSpec } from '../../support/sandbox-spec.ts'
import {
  benchOf,
  type Box,
  filesIn,
  optionsOf,
  organisation,
  otherOrganisation,
  sessionIds,
  slowCopyPath,
  snapshotIds,
  startBench,
  textOf,
} from './snapshot-kit.ts'
import { tempDir, until } from '../support.ts'
import { asRoot, isRoot } from '../../support/needs.ts'

const claim = isRoot ? claimUids() : undefined
afterAll(() => claim?.release())
const uids = claim?.uids

const [one = '', two = '', three = ''] = sessionIds
const [first = '', second = ''] = snapshotIds
const canary = { name: 'API_TOKEN', value: 'canary+/4711 "secret"' }

/** For the test: children of the host see it. */
function setPath(path: string): void {
  const before = process.env['PATH']
  process.env['PATH'] = path
  onTestFinished(() => void (process.env['PATH'] = before))
}

describe('taking', () => {
  test('[SNAP1] ten requests for one id take it once; it is answered when its sandbox is gone, too', async () => {
    const { provider, start, take, ask, snapshots, drafts } = await startBench(uids)
    const box = await start(one)
    box.write(join(box.workspace, 'a.txt'), 'before')
    const sizes = await Promise.all(Array.from({ length: 10 }, () => take(first, one)))
    expect(new Set(sizes).size).toBe(1)
    const path = `/snapshots/${organisation}/${first}`
    const record = await (await ask('GET', path)).json()
    expect(record).toMatchObject({ snapshotId: first, source: { sessionId: one, generation: 1 } })
    box.write(join(box.workspace, 'a.txt'), 'after')
    await take(first, one)
    expect(textOf(snapshots, organisation, first, 'workspace', 'a.txt')).toBe('before')

    await provider.stop(one, 1)
    expect(await take(first, one)).toBe(sizes[0])
    expect(await (await ask('GET', path)).json()).toEqual(record)
    await expect(take(first, two)).rejects.toMatchObject({ code: 'wrong_state' })
    await expect(take(second, one)).rejects.toMatchObject({ code: 'not_found' })
    expect(drafts()).toEqual([])
  })

  test('[SNAP1] deleting may be repeated, and a late request does not bring the snapshot back', async () => {
    const { provider, start, take, ask } = await startBench(uids)
    await start(one)
    await take(first, one)
    await provider.deleteSnapshot(organisation, first)
    await provider.deleteSnapshot(organisation, first)
    expect((await ask('GET', `/snapshots/${organisation}/${first}`)).status).toBe(404)
    await expect(take(first, one)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[SNAP2] the copy is of one moment, and the sandbox works on afterwards', async () => {
    setPath(slowCopyPath(0.15)) // workspace and home are copied that far apart
    const { start, take, snapshots } = await startBench(uids)
    const box = await start(one)
    const files = [join(box.workspace, 'count'), join(box.home, 'count')] as const
    const sleeper = box.spawn('sleep', '60')
    const script = `
      const { openSync, writeSync } = require('node:fs')
      const [a, b] = process.argv.slice(1).map((path) => openSync(path, 'w'))
      for (let n = 1e9; ; n++) { writeSync(a, String(n), 0); writeSync(b, String(n), 0) }`
    box.spawn(binary('node'), '-e', script, ...files)
    await until(() => files.every((path) => existsSync(path) && statSync(path).size > 0))
    process.kill(sleeper.pid ?? 0, 'SIGSTOP')
    await until(() => isProcessStopped(sleeper.pid ?? 0))

    for (const id of [first, second]) {
      await take(id, one)
      const [inWorkspace, inHome] = ['workspace', 'home'].map((name) =>
        Number(textOf(snapshots, organisation, id, name, 'count')),
      ) as [number, number]
      expect(inWorkspace - inHome).toBeGreaterThanOrEqual(0)
      expect(inWorkspace - inHome).toBeLessThanOrEqual(1)
      const now = textOf(files[0])
      await until(() => textOf(files[0]) !== now)
    }
    expect(box.pids().filter(isProcessStopped)).toEqual([sleeper.pid])
  })

  test('[SNAP2] stopping the sandbox ends what is being copied of it', async () => {
    setPath(slowCopyPath(60))
    const { provider, start, take, drafts, ask } = await startBench(uids)
    const box = await start(one)
    const taken = expect(take(first, one)).rejects.toMatchObject({ code: 'wrong_state' })
    await until(() => box.pids().length > 0 && box.pids().every(isProcessStopped))
    await provider.stop(one, 1)
    await taken
    expect(drafts()).toEqual([])
    expect(box.pids()).toEqual([])
    expect((await ask('GET', `/snapshots/${organisation}/${first}`)).status).toBe(404)
  })

  test('[SNAP7] what is too large is refused before and after the copy, and says so', async () => {
    const { start, take, drafts } = await startBench(uids, { snapshotMaxBytes: 1024 * 1024 })
    const box = await start(one)
    box.write(join(box.workspace, 'big'), Buffer.alloc(2 * 1024 * 1024, 1))
    const tooLarge = { code: 'too_large', message: expect.stringContaining('limit of 1 MiB') }
    await expect(take(first, one)).rejects.toMatchObject(tooLarge)
    box.run('rm big; truncate -s 3M sparse')
    await expect(take(first, one)).rejects.toMatchObject(tooLarge)
    box.run('rm sparse')
    expect(await take(first, one)).toBeLessThan(1024 * 1024)
    expect(drafts()).toEqual([])
  })

  test('[SNAP7] a copy that takes too long is given up, and the sandbox moves again', async () => {
    setPath(slowCopyPath(5))
    const { start, take, drafts } = await startBench(uids, { snapshotCopyMs: 300 })
    const box = await start(one)
    await expect(take(first, one)).rejects.toMatchObject({
      code: 'unprocessable',
      message: expect.stringContaining('too long'),
    })
    expect(box.pids().filter(isProcessStopped)).toEqual([])
    expect(drafts()).toEqual([])
  })
})

describe('secrets', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const commit = (box: Box) => {
    box.write(join(box.workspace, 'in-git.txt'), `key: ${canary.value}`)
    box.run('git add -A; git commit -qm one; git rm -q in-git.txt; git commit -qm two')
  }
  const cases: [string, (box: Box) => void, string | RegExp][] = [
    [
      'as it is',
      (box) => box.write(join(box.workspace, 'src/a.ts'), `x ${canary.value} y`),
      'src/a.ts',
    ],
    [
      'base64',
      (box) => box.write(join(box.home, '.tool/rc'), base64(`user:${canary.value}`)),
      '~/.tool/rc',
    ],
    ['in a git object', commit, /^\.git\/objects\/[0-9a-f]{2}\/[0-9a-f]{38}$/],
    [
      'in a pack',
      (box) => void box.run('git gc -q'),
      /^\.git\/objects\/pack \(git object [0-9a-f]{40}\)$/,
    ],
  ]

  test('[SNAP3] a snapshot with a known secret is refused, naming file and secret', async () => {
    const { start, take, ask, drafts, snapshots, folder } = await startBench(uids)
    const box = await start(one)
    for (const [what, put, file] of cases) {
      put(box)
      const error = await take(first, one, { secrets: [canary] }).catch((error: unknown) => error)
      expect(error, what).toMatchObject({ code: 'unprocessable' })
      const [, name, path] =
        /^Secret "(.+?)" is in the file "(.+?)": /.exec((error as Error).message) ?? []
      expect(name, what).toBe('API_TOKEN')
      expect(path, what).toEqual(file instanceof RegExp ? expect.stringMatching(file) : file)
      expect((error as Error).message).not.toContain('canary')
      expect(drafts()).toEqual([])
      expect((await ask('GET', `/snapshots/${organisation}/${first}`)).status).toBe(404)
      box.run('rm -rf src ~/.tool')
    }
    box.run('rm -rf .git')
    expect(await take(first, one, { secrets: [canary] })).toBeGreaterThan(0)
    const told = spawnSync('grep', ['-rlaF', 'canary', snapshots, folder], { encoding: 'utf8' })
    expect(told.stdout).toBe('')
  })

  test('[SNAP3] what the sandbox itself was given is searched, too', async () => {
    const { start, take } = await startBench(uids)
    const box = await start(one)
    box.write(join(box.workspace, 'notes'), `token-of-${one}`)
    await expect(take(first, one)).rejects.toMatchObject({
      message: expect.stringContaining('Secret "session token" is in the file "notes"'),
    })
  })

  test('[SNAP3] a pack that cannot be searched is refused; what git itself cannot use is no obstacle', async () => {
    const { start, take, snapshots } = await startBench(uids)
    const box = await start(one)
    const packs = join(box.workspace, '.git/objects/pack')
    box.write(join(box.workspace, '.git/objects/00', '1'.repeat(38)), 'no object')
    box.write(join(packs, 'pack-1.pack'), 'without an index')
    await take(first, one, { secrets: [canary] })
    const copied = join(snapshots, organisation, first, 'workspace/.git/objects')
    expect(existsSync(join(copied, 'pack/pack-1.pack'))).toBe(false)
    expect(existsSync(join(copied, '00'))).toBe(true)
    box.write(join(packs, 'pack-1.idx'), 'no index')
    await expect(take(second, one, { secrets: [canary] })).rejects.toMatchObject({
      code: 'unprocessable',
      message: expect.stringContaining("Cannot search git's packs"),
    })
  })
})

describe('what is left out', () => {
  test('[SNAP4] credentials, env files, OpenCode data and our own files are not in it; the live ones stay', async () => {
    const { start, take, snapshots } = await startBench(uids)
    const box = await start(one)
    const config = (url: string, more = '') => `[remote "origin"]\n\turl = ${url}\n${more}`
    const live: Record<string, string> = {
      'home/.netrc': 'x',
      'home/.git-credentials': 'x',
      'home/.ssh/id_ed25519': 'x',
      'home/.aws/credentials': 'x',
      'home/.config/gh/hosts.yml': 'x',
      'home/.config/opencode/opencode.json': 'x',
      'home/.docker/config.json': 'x',
      'home/.local/share/opencode/opencode.db': 'x',
      'home/.cache/opencode/x': 'x',
      'home/.bash_history': 'x',
      'workspace/.env.local': 'KEY=value',
      'workspace/sub/.netrc': 'x',
      'workspace/.proliferate/.verification/shot.png': 'x',
      'workspace/.proliferate/actions-guide.md': 'x',
      'workspace/opencode.json': 'x',
      'workspace/.opencode/tool/save_env_files.ts': 'x',
      'tmp/.proliferate_env.json': '{}',
    }
    const kept: Record<string, string> = {
      'home/.config/tool/rc': 'x',
      'home/.local/share/fonts/a': 'x',
      'home/.cache/npm/a': 'x',
      'workspace/.opencode/own.md': 'x',
      'workspace/opencode-notes.md': 'x',
    }
    const ours = [
      '/opencode.json',
      '/.opencode/tool/save_env_files.ts',
      '/.proliferate/actions-guide.md',
    ]
    const escape = ['/../../home/.cache/npm/a', '/outside/.cache/npm/a']
    const cleaned: Record<string, [string, string]> = {
      'workspace/.git/config': [
        config(
          'https://me:pass@host/x.git',
          '[credential]\n\thelper = store\n[http]\n\textraHeader = A: b\n',
        ),
        config('https://host/x.git', '[http]\n'),
      ],
      'workspace/.git/info/exclude': [
        `*.log\n# Written by Gantry\n${[...ours, ...escape].join('\n')}\n`,
        '*.log\n',
      ],
      'home/.npmrc': [
        '//npm.test/:_authToken=npm_1\n//npm.test/:_authToken=${NPM_TOKEN}\nfund=false\n',
        '//npm.test/:_authToken=${NPM_TOKEN}\nfund=false\n',
      ],
    }
    for (const [path, content] of Object.entries({ ...live, ...kept }))
      box.write(join(box.workspace, '..', path), content)
    for (const [path, [content]] of Object.entries(cleaned))
      box.write(join(box.workspace, '..', path), content)
    chmodSync(join(box.home, '.npmrc'), 0o400)
    box.run(`mkfifo pipe; ln -s ${box.home} outside`)

    await take(first, one, { generatedFiles: ['.env.local', '../home/.cache/npm/a'] })
    const copy = join(snapshots, organisation, first)
    const files = filesIn(copy)
    for (const path of Object.keys(live)) expect(files, path).not.toContain(path)
    for (const path of Object.keys(kept)) expect(files, path).toContain(path)
    for (const [path, [, content]] of Object.entries(cleaned))
      expect(textOf(copy, path)).toBe(content)
    expect(files).not.toContain('workspace/pipe')
    expect(files).toContain('workspace/outside')
    expect(existsSync(join(copy, 'workspace', '.proliferate'))).toBe(false)
    for (const [path, content] of Object.entries({ ...live, ...kept }))
      expect(textOf(box.workspace, '..', path), path).toBe(content)
    for (const [path, [content]] of Object.entries(cleaned))
      expect(textOf(box.workspace, '..', path)).toBe(content)
  })

  asRoot('[SNAP4] a file of another user that was linked in is not in it', async () => {
    const { start, take, snapshots } = await startBench(uids)
    const box = await start(one)
    writeFileSync(join(box.workspace, 'foreign'), 'of root', { mode: 0o600 })
    await take(first, one)
    expect(existsSync(join(snapshots, organisation, first, 'workspace', 'foreign'))).toBe(false)
  })
})

describe('restoring', () => {
  test('[SNAP5] a sandbox starts from the files: history, changes and home, as its own user', async () => {
    const { provider, start, take, root } = await startBench(uids)
    const box = await start(one)
    box.write(join(box.workspace, 'a.txt'), 'committed')
    box.run('git add -A; git commit -qm Work; echo changed > a.txt; echo new > b.txt; mkdir empty')
    box.write(join(box.home, '.cache/dep/x'), 'dependency')
    box.write(join(root, box.name, 'tmp', '.proliferate_env.json'), '{"KEY":"value"}')
    box.spawn('sleep', '60')
    const head = box.run('git rev-parse HEAD')
    await take(first, one)
    await provider.stop(one, 1)

    const restored = await start(two, first)
    expect(restored.run('git log --format=%s')).toBe('Work\nInitial commit')
    expect(restored.run('git rev-parse HEAD')).toBe(head)
    expect(restored.run('git status --porcelain')).toBe('M a.txt\n?? b.txt')
    expect(restored.run('cat ~/.cache/dep/x; ls -d empty')).toBe('dependencyempty')
    expect(existsSync(join(root, restored.name, 'tmp', '.proliferate_env.json'))).toBe(false)
    // Files only: no process came along, and the token is the new sandbox's own.
    expect(restored.pids()).toHaveLength(1)
    expect(textOf(root, restored.name, 'agent', 'boot.json')).toContain(`token-of-${two}`)
    const owners = spawnSync('find', [
      restored.workspace,
      restored.home,
      '!',
      '-uid',
      String(restored.uid),
    ])
    expect(owners.stdout.toString()).toBe('')
    if (isRoot) expect(restored.uid).not.toBe(box.uid)
    restored.run('git commit -qam More')
    const again = await start(three, first)
    expect(again.run('git rev-parse HEAD')).toBe(head)
  })

  test('[SNAP6] a snapshot of another organisation is not found, neither to take, read nor restore', async () => {
    const { provider, start, take, ask } = await startBench(uids)
    await start(one)
    await take(first, one)
    expect((await ask('GET', `/snapshots/${otherOrganisation}/${first}`)).status).toBe(404)
    const foreign = { organisationId: otherOrganisation }
    await expect(take(second, one, foreign)).rejects.toMatchObject({ code: 'not_found' })
    await provider.deleteSnapshot(otherOrganisation, first)
    expect((await ask('GET', `/snapshots/${organisation}/${first}`)).status).toBe(200)

    await provider.create(sandboxSpec({ sessionId: two, ...foreign, snapshotId: first }))
    const info = await until(async () => {
      const found = await provider.get(two, 1)
      return found?.state === 'exited' ? found : null
    })
    expect(info.reason).toBe(`Cannot start from snapshot "${first}": not found`)
  })

  asRoot('[SNAP6] the folder of snapshots is closed to sandboxes', async () => {
    const { start, take, snapshots } = await startBench(uids)
    const box = await start(one)
    await take(first, one)
    expect(() => box.run(`ls ${snapshots}`)).toThrow('Permission denied')
    expect(statSync(snapshots).mode & 0o777).toBe(0o700)
  })
})

test('[SNAP10] a frozen sandbox stands still until it is stopped, also after a snapshot, and ends at once', async () => {
  const { provider, start, take } = await startBench(uids, { stopGraceMs: 60_000 })
  const box = await start(one)
  box.spawn('sh', '-c', 'while :; do date >> ticks; sleep 0.05; done')
  box.write(join(box.workspace, 'work.txt'), 'half done')
  await until(() => box.pids().length >= 2)
  await provider.freeze?.(one, 1)
  expect(box.pids().every(isProcessStopped)).toBe(true)
  expect(await take(first, one)).toBeGreaterThan(0)
  expect(box.pids().every(isProcessStopped)).toBe(true)
  // Its agent cannot end in order, so nobody waits a minute for that.
  await provider.stop(one, 1)
  expect(box.pids()).toEqual([])
  const again = await start(two, first)
  expect(again.run('cat work.txt')).toBe('half done')
  await expect(provider.freeze?.(one, 1)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
})

describe('deaths', () => {
  /** The host as a process of its own, so that it can be killed. */
  async function startHostProcess(options: ReturnType<typeof optionsOf>, path: string) {
    const child = spawn(binary('node'), [join(repository, 'local', 'host', 'main.ts')], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH: path, HOME: '/' },
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    child.stdin.end(JSON.stringify(options))
    for await (const line of createInterface(child.stdout)) {
      const { url } = JSON.parse(line) as { url: string }
      return { child, url }
    }
    throw new Error('The host has not started')
  }

  test('[SNAP8] a host that is killed during the copy leaves no half snapshot and no frozen process', async () => {
    const folder = tempDir()
    const options = optionsOf(folder, uids)
    onTestFinished(() => void spawnSync('rm', ['-rf', dirname(options.root)]))
    const { child, url } = await startHostProcess(options, slowCopyPath(3))
    const { start, take, drafts } = benchOf(options.root, folder, { url, close: async () => {} })
    const box = await start(one)
    const taken = expect(take(first, one)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    await until(() => box.pids().length > 0 && box.pids().every(isProcessStopped))
    expect(drafts()).toHaveLength(1)
    child.kill('SIGKILL')
    await taken
    await until(() => !box.pids().some(isProcessStopped) && drafts().length === 0)
    expect(box.pids()).toHaveLength(1)

    const next = await startBench(uids, { root: options.root })
    expect(next.drafts()).toEqual([])
    expect((await next.ask('GET', `/snapshots/${organisation}/${first}`)).status).toBe(404)
    // Its processes have ended with the host; its files are there until it is stopped.
    expect(await next.take(first, one)).toBeGreaterThan(0)
    await next.provider.stop(one, 1)
    await expect(next.take(second, one)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[SNAP8] when the process that takes it is killed, the sandbox moves again and the next try succeeds', async () => {
    setPath(slowCopyPath(0.3))
    const { start, take, drafts, snapshots } = await startBench(uids)
    const box = await start(one)
    const taken = expect(take(first, one)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    await until(() => box.pids().length > 0 && box.pids().every(isProcessStopped))
    const mark = `GANTRY_SNAPSHOT=${join(snapshots, '.drafts', drafts()[0] ?? '')}`
    const takers = findProcesses({ marks: [mark] })
    expect(takers.length).toBeGreaterThan(0)
    for (const pid of takers) process.kill(pid, 'SIGKILL')
    await taken
    expect(box.pids().some(isProcessStopped)).toBe(false)
    expect(drafts()).toEqual([])
    expect(await take(first, one)).toBeGreaterThan(0)
  })

  test('[SNAP8] snapshots outlive the host; what was half at its death is cleared at the next start', async () => {
    const before = await startBench(uids)
    await before.start(one)
    const bytes = await before.take(first, one)
    await before.close()
    mkdirSync(join(before.snapshots, '.drafts', `${second}.x`, 'content'), { recursive: true })
    const after = await startBench(uids, { root: before.root })
    expect(after.drafts()).toEqual([])
    expect(await after.take(first, one)).toBe(bytes)
    const restored = await after.start(two, first)
    expect(restored.run('git log --format=%s')).toBe('Initial commit')
  })
})

test('[SNAP1] the provider says so when the host is away or answers nonsense', async () => {
  const { provider, close } = await startBench(uids)
  const order = { snapshotId: first, organisationId: organisation, sessionId: one, generation: 1 }
  await expect(
    provider.snapshot({ ...order, snapshotId: 'snp_1', secrets: [] }),
  ).rejects.toMatchObject({
    code: 'sandbox_unavailable',
  })
  await close()
  for (const work of [
    () => provider.snapshot({ ...order, secrets: [] }),
    () => provider.deleteSnapshot(organisation, first),
  ])
    await expect(work()).rejects.toMatchObject({ code: 'sandbox_unavailable' })
})
