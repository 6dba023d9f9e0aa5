import { NotFoundError, Sandbox } from 'e2b'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../local/support.ts'
import { type E2bDouble, startE2bDouble } from '../support/e2b-double.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'

const why = whyNoMachines()

describe.skipIf(why !== null)(
  `the official SDK at the double${why ?? ''}`,
  { timeout: 240_000 },
  () => {
    let double: E2bDouble
    let options: { apiKey: string; apiUrl: string; sandboxUrl: string }
    let sandbox: Sandbox
    beforeAll(async () => {
      double = await startE2bDouble()
      options = { apiKey: double.apiKey, apiUrl: double.url, sandboxUrl: double.url }
      const metadata = { owner: 'sdk', with: 'a=b&c d' }
      sandbox = await Sandbox.create('gantry', { ...options, timeoutMs: 60_000, metadata })
    }, 240_000)
    afterAll(() => double?.close())

    test('[E2B14] create, info, list and time limit', async () => {
      const info = await sandbox.getInfo()
      expect(info.metadata).toEqual({ owner: 'sdk', with: 'a=b&c d' })
      const query = { metadata: { with: 'a=b&c d' } }
      const listed = await Sandbox.list({ ...options, query }).nextItems()
      expect(listed.map(({ sandboxId }) => sandboxId)).toEqual([sandbox.sandboxId])
      expect(
        await Sandbox.list({ ...options, query: { metadata: { with: 'x' } } }).nextItems(),
      ).toEqual([])
      await sandbox.setTimeout(3600_000)
      const { endAt } = await sandbox.getInfo()
      expect(endAt.getTime() - Date.now()).toBeGreaterThan(3_500_000)
      expect(await sandbox.isRunning()).toBe(true)
    })

    test('[E2B14] commands: output, exit code, user, environment, input, background, list and kill', async () => {
      const out: string[] = []
      const result = await sandbox.commands.run('echo one; echo two >&2; id -un; echo $A; pwd', {
        envs: { A: 'a b' },
        cwd: '/tmp',
        onStdout: (text) => void out.push(text),
      })
      expect(result).toMatchObject({
        exitCode: 0,
        stdout: 'one\nuser\na b\n/tmp\n',
        stderr: 'two\n',
      })
      expect(out.join('')).toBe(result.stdout)
      expect((await sandbox.commands.run('id -un', { user: 'root' })).stdout).toBe('root\n')
      await expect(sandbox.commands.run('exit 7')).rejects.toMatchObject({ exitCode: 7 })
      const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
      await sandbox.commands.sendStdin(cat.pid, 'given')
      await sandbox.commands.closeStdin(cat.pid)
      expect((await cat.wait()).stdout).toBe('given')
      const sleep = await sandbox.commands.run('sleep 1000', { background: true })
      const isListed = async () =>
        (await sandbox.commands.list()).some(({ pid }) => pid === sleep.pid)
      expect(await isListed()).toBe(true)
      expect(await sandbox.commands.kill(sleep.pid)).toBe(true)
      await until(async () => !(await isListed()))
      expect(await sandbox.commands.kill(sleep.pid)).toBe(false)
      await expect(sleep.wait()).rejects.toThrow()
    })

    test('[E2B14] files: write, read, list, move, remove', async () => {
      await sandbox.files.write('/home/user/a/b.txt', 'text ä')
      expect(await sandbox.files.read('/home/user/a/b.txt')).toBe('text ä')
      await sandbox.files.makeDir('/home/user/c')
      await sandbox.files.rename('/home/user/a/b.txt', '/home/user/c/d.txt')
      const entries = await sandbox.files.list('/home/user/c')
      expect(entries.map(({ name, type }) => [name, type])).toEqual([['d.txt', 'file']])
      expect(await sandbox.files.exists('/home/user/a/b.txt')).toBe(false)
      await sandbox.files.remove('/home/user/c')
      await expect(sandbox.files.read('/home/user/c/d.txt')).rejects.toBeInstanceOf(NotFoundError)
    })

    test('[E2B14] pause stands still, connect goes on; without memory it is a new start', async () => {
      await sandbox.commands.run('while :; do date +%s%N > /tmp/tick; sleep 0.05; done', {
        background: true,
      })
      await until(() => sandbox.files.exists('/tmp/tick'))
      await sandbox.pause()
      expect((await Sandbox.getInfo(sandbox.sandboxId, options)).state).toBe('paused')
      await expect(sandbox.commands.run('true')).rejects.toThrow()
      sandbox = await Sandbox.connect(sandbox.sandboxId, options)
      const tick = await sandbox.files.read('/tmp/tick')
      await until(async () => (await sandbox.files.read('/tmp/tick')) !== tick)
      await sandbox.pause({ keepMemory: false })
      sandbox = await Sandbox.connect(sandbox.sandboxId, options)
      expect(await sandbox.commands.list()).toEqual([])
      expect(await sandbox.files.exists('/tmp/tick')).toBe(true)
    })

    test('[E2B14] snapshots: take, list, start from one with its processes, delete', async () => {
      await sandbox.files.write('/home/user/kept.txt', 'kept')
      await sandbox.commands.run('sleep 1234', { background: true })
      const { snapshotId } = await sandbox.createSnapshot({ name: 'mine:v1' })
      expect(snapshotId).toBe('team/mine:v1')
      const listed = await Sandbox.listSnapshots({ ...options, name: 'mine' }).nextItems()
      expect(listed.map((each) => each.snapshotId)).toEqual([snapshotId])
      const copy = await Sandbox.create(snapshotId, options)
      expect(await copy.files.read('/home/user/kept.txt')).toBe('kept')
      expect((await copy.commands.run('ps axo args')).stdout).toContain('sleep 1234')
      await copy.kill()
      expect(await Sandbox.deleteSnapshot(snapshotId, options)).toBe(true)
      expect(await Sandbox.deleteSnapshot(snapshotId, options)).toBe(false)
    })

    test('[E2B14] kill, and a wrong key', async () => {
      expect(await sandbox.kill()).toBe(true)
      expect(await Sandbox.kill(sandbox.sandboxId, options)).toBe(false)
      await expect(Sandbox.create('gantry', { ...options, apiKey: 'e2b_wrong' })).rejects.toThrow()
      await expect(Sandbox.create('nothing', options)).rejects.toThrow('not found')
    })

    test('[E2B14] everything that the SDK asked is known to the double', () => {
      expect(double.refused).toEqual([])
    })
  },
)

describe.skipIf(why !== null)('the double', { timeout: 240_000 }, () => {
  test('[E2B15] calls and fields that E2B does not have are refused and remembered', async () => {
    const double = await startE2bDouble()
    const ask = (path: string, body: object) =>
      fetch(`${double.url}${path}`, {
        method: 'POST',
        headers: { 'x-api-key': double.apiKey },
        body: JSON.stringify(body),
      })
    expect((await ask('/v2/sandboxes', { templateID: 'gantry', idempotencyKey: 'x' })).status).toBe(
      500,
    )
    expect((await ask('/v9/sandboxes', {})).status).toBe(500)
    expect(double.refused).toHaveLength(2)
    await double.close()
  })

  test('[E2B15] a sandbox that the vendor no longer knows goes on when it wakes', async () => {
    const double = await startE2bDouble()
    const options = { apiKey: double.apiKey, apiUrl: double.url, sandboxUrl: double.url }
    const sandbox = await Sandbox.create('gantry', options)
    const box = double.box(sandbox.sandboxId)
    double.pause(sandbox.sandboxId)
    double.hide(sandbox.sandboxId)
    expect(await Sandbox.list(options).nextItems()).toEqual([])
    await expect(sandbox.getInfo()).rejects.toBeInstanceOf(NotFoundError)
    double.wake(sandbox.sandboxId)
    expect(box.pids().length).toBeGreaterThan(0)
    await double.close()
    expect(box.pids()).toEqual([])
  })
})
