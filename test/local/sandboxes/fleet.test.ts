import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { findProcesses } from '../../../local/processes/processes.ts'
import { createLocalSandboxes } from '../../../src/adapters/sandboxes/local.ts'
import type { SandboxSpec } from '../../../src/core/ports.ts'
import { noLimits } from '../../support/sandbox-spec.ts'
import { doing, type HostWorld, startHostWorld } from '../host/host-world.ts'
import { until } from '../support.ts'
import { isLong } from '../../support/long.ts'
import { asRoot, isRoot, onLinux } from '../../support/needs.ts'

/** The long run starts more of them at once. */
const many = isLong ? 10 : 4
const organisationId = `org_${'1'.repeat(20)}`

async function start(overrides: Parameters<typeof startHostWorld>[0] = {}) {
  const world = await startHostWorld(overrides)
  onTestFinished(() => world.close())
  const run = async (more: Partial<SandboxSpec> = {}) => {
    const spec = world.spec(more)
    await world.provider.create(spec)
    await until(async () => (await world.tokens(spec.sessionId, 1)).length === 1, 20_000)
    return spec
  }
  const folderOf = ({ sessionId }: SandboxSpec) => join(world.options.root, `${sessionId}.1`)
  const state = async ({ sessionId }: SandboxSpec) =>
    (await world.provider.get(sessionId, 1))?.state
  return { ...world, run, folderOf, state }
}

describe('a host that was killed and started again', () => {
  test('[LOC15] lists what is left as ended, to its organisation alone, until it is stopped', async () => {
    const world = await start()
    const spec = await world.run()
    await world.write(spec.sessionId, 1, 'a.txt', 'x')
    const { startedAt } = (await world.provider.get(spec.sessionId, 1)) ?? {}
    await world.killHost()
    expect(world.pids(spec.sessionId, 1).length).toBeGreaterThan(0)
    await world.startHost()
    expect(world.pids(spec.sessionId, 1)).toEqual([])
    const info = {
      sessionId: spec.sessionId,
      generation: 1,
      state: 'exited',
      reason: 'The sandbox host was restarted',
      startedAt,
    }
    expect(await world.provider.list(organisationId)).toEqual([info])
    expect(await world.provider.list(`org_${'2'.repeat(20)}`)).toEqual([])
    expect(await world.provider.create(spec)).toEqual(info)
    expect(await world.read(spec.sessionId, 1, 'a.txt')).toBe('x')
    await world.provider.stop(spec.sessionId, 1)
    expect(await world.leftovers()).toEqual([])
    expect(await world.provider.list(organisationId)).toEqual([])
  })

  test('[LOC16] ends the lifetime that the earlier one began, and what is too old at once', async () => {
    const world = await start({ leftKeptMs: 0 })
    const spec = await world.run({ limits: { ...noLimits, lifetimeSeconds: 600 } })
    await world.provider.extend(spec.sessionId, 1, 6)
    const old = await world.run()
    await world.killHost()
    const path = join(world.folderOf(old), 'record.json')
    const record = JSON.parse(readFileSync(path, 'utf8')) as { endsAt: number }
    writeFileSync(path, JSON.stringify({ ...record, endsAt: record.endsAt - 30 * 24 * 3600_000 }))
    const broken = join(world.options.root, `ses_${'z'.repeat(30)}.1`)
    mkdirSync(join(broken, 'workspace'), { recursive: true })
    await world.startHost()
    expect(existsSync(world.folderOf(old))).toBe(false)
    expect(existsSync(broken)).toBe(false)
    await until(() => readdirSync(world.folderOf(spec)).length === 1, 20_000)
    expect(await world.provider.create(spec)).toMatchObject({ state: 'exited' })
    expect(world.pids(spec.sessionId, 1)).toEqual([])
  })

  asRoot('[LOC18] gives out users that no earlier sandbox had', async () => {
    const world = await start()
    const users: number[] = []
    for (let round = 0; round < 2; round += 1) {
      const spec = await world.run()
      users.push(statSync(join(world.folderOf(spec), 'home')).uid)
      await world.provider.stop(spec.sessionId, 1)
      await world.killHost()
      await world.startHost()
    }
    expect(new Set(users).size).toBe(2)
  })
})

describe('limits', () => {
  test('[LOC16] whoever has reached the end of its lifetime has ended, with its files, and does not start again', async () => {
    const world = await start()
    const spec = world.spec({ limits: { ...noLimits, lifetimeSeconds: 2 } })
    await world.provider.create(spec)
    await until(async () => (await world.state(spec)) === 'exited', 20_000)
    await until(() => readdirSync(world.folderOf(spec)).length === 1)
    const ended = { state: 'exited', reason: 'Its lifetime is over' }
    expect(await world.provider.create(spec)).toMatchObject(ended)
    expect(await world.provider.list(organisationId)).toMatchObject([ended])
    expect(world.pids(spec.sessionId, 1)).toEqual([])
    const late = world.provider.extend(spec.sessionId, 1, 60)
    await expect(late).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[LOC21] a sandbox whose folder was removed under it has ended and says so, also if its agent makes a new one', async () => {
    const world = await start()
    // It has many processes, so that ending them takes a while.
    const [spec, other] = [await world.run({ gatewayUrl: doing('forks') }), await world.run()]
    rmSync(world.folderOf(spec), { recursive: true })
    mkdirSync(join(world.folderOf(spec), 'workspace'), { recursive: true })
    await until(async () => (await world.state(spec)) === 'exited', 20_000)
    const ended = { state: 'exited', reason: 'Its folder was removed' }
    expect(await world.provider.create(spec)).toMatchObject(ended)
    expect(world.pids(spec.sessionId, 1)).toEqual([])
    expect(await world.state(other)).toBe('running')
    for (const { sessionId } of [spec, other]) await world.provider.stop(sessionId, 1)
    expect(await world.leftovers()).toEqual([])
  })

  asRoot('[LOC17] a sandbox starts no more processes than it may', async () => {
    const world = await start()
    const gatewayUrl = doing('forks')
    const held = await world.run({ gatewayUrl, limits: { ...noLimits, processes: 20 } })
    const free = await world.run({ gatewayUrl })
    const count = (spec: SandboxSpec) => {
      const { uid } = statSync(join(world.folderOf(spec), 'home'))
      return findProcesses({ marks: [], uids: [uid] }).length
    }
    await until(() => count(free) > 100, 20_000)
    expect(count(held)).toBeLessThanOrEqual(20)
    expect(await world.state(held)).toBe('running')
  })

  onLinux(
    '[LOC17] the process that takes a sandbox above its memory is ended; the sandbox goes on',
    async () => {
      const world = await start()
      const gatewayUrl = doing('hoards')
      const held = await world.run({ gatewayUrl, limits: { ...noLimits, memoryMb: 300 } })
      const line = await until(
        () => world.lines.find((each) => each.includes('memory limit","sandbox')),
        20_000,
      )
      expect(JSON.parse(line)).toMatchObject({ sandbox: `${held.sessionId}.1`, memoryMb: 300 })
      expect(await world.tokens(held.sessionId, 1)).toEqual([held.token])
      expect(await world.state(held)).toBe('running')
      const free = await world.run({ gatewayUrl })
      await until(() => world.pids(free.sessionId, 1).some((pid) => sizeMb(pid) > 500), 20_000)
    },
  )

  test('[LOC17] an image is refused with a reason: the machine itself is the only one', async () => {
    const world = await start()
    const spec = world.spec({ image: 'ubuntu:24.04' })
    await world.provider.create(spec)
    await until(async () => (await world.state(spec)) === 'exited')
    const { reason } = (await world.provider.get(spec.sessionId, 1)) ?? {}
    expect(reason).toBe('Cannot boot "ubuntu:24.04": the local provider has no images')
  })
})

/** 0 of a process that ends meanwhile, as those do with which git makes a workspace. */
function sizeMb(pid: number): number {
  const file = `/proc/${pid}/status`
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}

asRoot('[LOC18] what a sandbox has left in /tmp goes with it', async () => {
  const world = await start()
  const spec = await world.run({ gatewayUrl: doing('litters') })
  const { uid } = statSync(join(world.folderOf(spec), 'home'))
  const litter = () =>
    ['/tmp', '/var/tmp']
      .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
      .filter((path) => path.includes('/litter.') && statSync(path).uid === uid)
  await until(() => litter().length === 2)
  await world.provider.stop(spec.sessionId, 1)
  expect(litter()).toEqual([])
})

asRoot('[LOC6] a sandbox can neither read nor change what says whose it is', async () => {
  const world = await start()
  const spec = await world.run()
  const { uid } = statSync(join(world.folderOf(spec), 'home'))
  const path = join(world.folderOf(spec), 'record.json')
  const can = (script: string) =>
    spawnSync('sh', ['-c', script], { uid, gid: uid, cwd: '/' }).status === 0
  expect(can(`cat ${path}`)).toBe(false)
  expect(can(`echo '{}' > ${path}`)).toBe(false)
  expect(can(`mv ${path} ${path}.old`)).toBe(false)
})

/** As the enclosure itself needs them, but tried without it. */
const hasWalls =
  process.platform === 'linux' &&
  spawnSync('unshare', [
    '--user',
    '--map-current-user',
    '--net',
    '--mount',
    '--pid',
    '--fork',
    'true',
  ]).status === 0

describe('check', () => {
  const byName = async (world: Pick<HostWorld, 'provider'>) =>
    Object.fromEntries((await world.provider.check()).map((each) => [each.name, each]))

  test('[LOC19] [WALL10] one result for host, agent, OpenCode, folders, users and each limit', async () => {
    const world = await start()
    const checks = await byName(world)
    for (const name of ['host', 'secret', 'agent', 'node', 'opencode', 'git', 'folders'])
      expect(checks[name], name).toMatchObject({ ok: true, hint: null })
    for (const name of ['users', 'process limit']) expect(checks[name]?.ok).toBe(isRoot)
    expect(checks['memory limit']?.ok).toBe(process.platform === 'linux')
    expect(checks['enclosure']).toMatchObject(
      hasWalls ? { ok: true, message: expect.stringMatching(/^full: /) } : { ok: false },
    )
    expect(checks['opencode']?.message).toMatch(/is \d+\.\d+\.\d+$/)
    expect(await world.leftovers()).toEqual([])
    // The start-up line says the same of the limits.
    expect(JSON.parse(world.lines[0] ?? '')).toMatchObject({
      msg: 'ready',
      'memory limit': checks['memory limit']?.message,
      'process limit': checks['process limit']?.message,
    })
  })

  test('[LOC19] [WALL10] what is missing is named, with what to do', async () => {
    const missing = { opencode: '/nowhere/opencode', agentFile: '/nowhere/agent.mjs' }
    const world = await start({ ...missing, enclosure: 'off' })
    const checks = await byName(world)
    for (const name of ['opencode', 'agent']) {
      expect(checks[name]).toMatchObject({ ok: false })
      expect(checks[name]?.message).toContain('/nowhere/')
      expect(checks[name]?.hint).toContain('npm install')
    }
    expect(checks['enclosure']).toMatchObject({ ok: false, hint: 'Unset GANTRY_ENCLOSURE' })
    expect(checks['host']).toMatchObject({ ok: true })
    const { root, port } = world.options
    const hostUrl = `http://127.0.0.1:${port}`
    const stranger = createLocalSandboxes({ hostUrl, secret: 'not-the-secret', root })
    const refused = await stranger.check()
    expect(refused).toMatchObject([
      { name: 'host', ok: true },
      { name: 'secret', ok: false },
    ])
    expect(refused[1]?.hint).toContain('SANDBOX_HOST_SECRET')
  })
})

test(`[LOC20] ${many} sandboxes at once leave no process, port, folder or open file`, async () => {
  const world = await start()
  const openFiles = () => readdirSync(`/proc/${world.hostPid()}/fd`).length
  const warm = await world.run()
  await world.provider.stop(warm.sessionId, 1)
  const before = process.platform === 'linux' ? openFiles() : 0
  const specs = await Promise.all(Array.from({ length: many }, () => world.run()))
  const ports = specs.flatMap(({ sessionId }) => world.ports(sessionId, 1))
  expect(new Set(ports).size).toBe(many)
  for (const port of ports) expect(await answers(port)).toBe(true)
  expect(await world.provider.list(organisationId)).toHaveLength(many)
  await Promise.all(specs.map(({ sessionId }) => world.provider.stop(sessionId, 1)))
  expect(await world.leftovers()).toEqual([])
  for (const port of ports) expect(await answers(port)).toBe(false)
  expect(await world.provider.list(organisationId)).toEqual([])
  if (process.platform === 'linux') await until(() => openFiles() <= before)
})

const answers = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
