import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createE2bSandboxes } from '../../src/adapters/sandboxes/e2b.ts'
import { until } from '../local/support.ts'
import { type E2bWorld, isAgent, startE2bWorld, vendorReads } from '../support/e2b-world.ts'
import { serveGit } from '../support/git-server.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { longTest, someOf } from '../support/long.ts'

const why = whyNoMachines()

/** Keeps the token to itself, unlike the usual stand-in. */
const quiet = `let text = ''
for await (const chunk of process.stdin) text += chunk
const boot = JSON.parse(text)
console.error('read', Object.keys(boot).join())
setInterval(() => globalThis.kept = boot.token, 1000)
`

describe.skipIf(why !== null)(`start of a sandbox at E2B${why ?? ''}`, { timeout: 240_000 }, () => {
  let world: E2bWorld
  beforeAll(async () => {
    world = await startE2bWorld(quiet)
  }, 240_000)
  afterEach(() => world.double.clear())
  afterAll(() => world?.close())

  const running = (sessionId: string) =>
    until(async () => (await world.provider.get(sessionId, 1))?.state === 'running', 20_000)

  test('[E2B1] the token is in no argument, environment, file or log of the vendor', async () => {
    const spec = world.spec({})
    await world.provider.create(spec)
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    const log = await until(() => readBox(box?.folder, 'var/lib/gantry/agent.log'))
    expect(log).toContain('token')
    const pids = box?.pids() ?? []
    expect(pids.length).toBeGreaterThan(1)
    for (const pid of pids) {
      for (const file of ['cmdline', 'environ'])
        expect(readFileSync(`/proc/${pid}/${file}`, 'utf8')).not.toContain(spec.token)
    }
    expect(found(box?.folder, spec.token)).toBe('')
    expect(vendorReads(world.double)).toContain('gantry-agent')
    expect(vendorReads(world.double)).not.toContain(spec.token)
  })

  longTest(
    '[E2B2] of several with one label the oldest stays and the others are killed',
    async () => {
      const spec = world.spec({})
      await world.provider.create(spec)
      await running(spec.sessionId)
      const [first] = world.boxes(spec.sessionId, 1)
      await duplicate(spec.sessionId, spec.organisationId)
      await duplicate(spec.sessionId, spec.organisationId)
      expect(world.boxes(spec.sessionId, 1)).toHaveLength(3)
      expect(await world.provider.get(spec.sessionId, 1)).toMatchObject({ state: 'running' })
      expect(world.boxes(spec.sessionId, 1)).toEqual([first])
    },
  )

  test('[E2B2] hosts that create one sandbox at once keep the same one', async () => {
    const spec = world.spec({})
    const hosts = [1, 2, 3].map(() => createE2bSandboxes(world.options))
    await Promise.all(hosts.map((host) => host.create(spec).catch(() => undefined)))
    await world.provider.create(spec)
    await running(spec.sessionId)
    expect(world.boxes(spec.sessionId, 1)).toHaveLength(1)
    expect(agentsOf(world, spec.sessionId)).toBe(1)
  })

  test.each(
    someOf([
      ['POST /v2/sandboxes', { lost: true }],
      ['GET /sandboxes/:id', { status: 500 }],
      ['POST /process.Process/Start', { cut: true }],
      ['POST /process.Process/StreamInput', { cut: true }],
      ['POST /process.Process/StreamInput', { status: 500 }],
      ['POST /process.Process/CloseStdin', { status: 500 }],
      ['POST /sandboxes/:id/timeout', { status: 500 }],
    ] as const),
  )('[E2B3] a start that fails at %s is gone on with, by one agent', async (route, fault) => {
    const spec = world.spec({})
    world.double.fault({ route, ...fault })
    await expect(world.provider.create(spec)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    await world.provider.create(spec)
    await world.provider.create(spec)
    await running(spec.sessionId)
    expect(world.boxes(spec.sessionId, 1)).toHaveLength(1)
    expect(agentsOf(world, spec.sessionId)).toBe(1)
  })

  test('[E2B18] a machine in which nothing was launched is not said to start: the next create goes on with it', async () => {
    const spec = world.spec({})
    world.double.fault({ route: 'GET /sandboxes/:id', status: 500 })
    await expect(world.provider.create(spec)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    expect(world.boxes(spec.sessionId, 1)).toHaveLength(1)
    expect(await world.provider.get(spec.sessionId, 1)).toBeNull()
    expect(await world.provider.list(spec.organisationId)).toHaveLength(1)
    await world.provider.create(spec)
    await running(spec.sessionId)
    expect(world.boxes(spec.sessionId, 1)).toHaveLength(1)
  })

  test('[E2B21] a machine lives ten minutes until an agent is launched in it, then as long as its lease', async () => {
    const spec = world.spec({})
    const leftSeconds = async () => {
      const answer = await fetch(`${world.options.apiUrl}/v2/sandboxes`, {
        headers: { 'x-api-key': world.options.apiKey },
      })
      const listed = (await answer.json()) as { endAt: string; metadata: { session?: string } }[]
      const own = listed.find(({ metadata }) => metadata.session === spec.sessionId)
      return (Date.parse(own?.endAt ?? '') - Date.now()) / 1000
    }
    world.double.fault({ route: 'GET /sandboxes/:id', status: 500 })
    await expect(world.provider.create(spec)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    expect(await leftSeconds()).toBeLessThanOrEqual(600)
    await world.provider.create(spec)
    await running(spec.sessionId)
    expect(await leftSeconds()).toBeGreaterThan(spec.limits.lifetimeSeconds - 600)
    expect(await leftSeconds()).toBeLessThanOrEqual(spec.limits.lifetimeSeconds)
  })

  test('[E2B4] a private repository is cloned, and its credential is nowhere afterwards', async () => {
    const git = await serveGit('name', 'repository-token-4711')
    world.double.ports.push(git.port)
    const repository = { url: git.url, ref: git.branch, token: null }
    const spec = world.spec({ repository: { ...repository, url: withUser(git.url, 'name') } })
    const token = 'repository-token-4711'
    await world.provider.create({ ...spec, repository: { ...spec.repository!, token } })
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    expect(await world.read(spec.sessionId, 1, 'readme.txt')).toBe('of the branch\n')
    expect(await world.read(spec.sessionId, 1, '.git/config')).toContain(git.url)
    expect(git.users).toContain('name')
    expect(found(box?.folder, token)).toBe('')
    for (const pid of box?.pids() ?? [])
      expect(readFileSync(`/proc/${pid}/environ`, 'utf8')).not.toContain(token)
    expect(vendorReads(world.double)).not.toContain(token)
    expect(await world.run(box!, 'user', 'cd /workspace && touch a && git status --short')).toBe(
      '?? a\n',
    )
  })

  longTest(
    '[E2B4] a repository that redirects elsewhere does not get the credential there',
    async () => {
      const other = await serveGit('name', 'something-else')
      const git = await serveGit('name', 'repository-token-4711', other.url)
      world.double.ports.push(git.port, other.port)
      const token = 'repository-token-4711'
      const spec = world.spec({ repository: { url: git.url, ref: null, token } })
      await world.provider.create(spec)
      await until(
        async () => (await world.provider.get(spec.sessionId, 1))?.state === 'exited',
        20_000,
      )
      expect(other.users.length).toBeGreaterThan(0)
      expect(other.secrets).not.toContain(token)
    },
  )

  longTest('[E2B4] a clone that fails is told, without the credential', async () => {
    const git = await serveGit('x-access-token', 'the-right-one')
    world.double.ports.push(git.port)
    const token = 'the-wrong-one-4711'
    const spec = world.spec({ repository: { url: git.url, ref: null, token } })
    await world.provider.create(spec)
    const info = await until(async () => {
      const now = await world.provider.get(spec.sessionId, 1)
      return now?.state === 'exited' ? now : null
    }, 240_000)
    expect(info.reason).toContain('git clone failed')
    // [E2B19]
    expect([info.fault, info.reason]).toEqual(['user', expect.stringContaining('its token')])
    expect(info.reason).not.toContain(token)
  })

  test.each([
    ['ssh://git@example.com/a', null],
    ['/a/path', null],
    ['file:///a/path', null],
    ['http://example.com/a', null],
    ['https://example.com/a', '--upload-pack=x'],
    ['https://example.com/a', 'two words'],
  ])('[E2B5] %s with ref %s is refused before anything is started', async (url, ref) => {
    const spec = world.spec({ repository: { url, ref, token: null } })
    const calls = world.double.calls.length
    await expect(world.provider.create(spec)).rejects.toMatchObject({ code: 'unprocessable' })
    expect(world.double.calls).toHaveLength(calls)
  })

  test('[E2B6] the user of the sandbox becomes not root, whatever the vendor allowed it', async () => {
    const upper = join(world.double.folder, 'base', 'upper')
    const folder = join(upper, 'usr/local/bin')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'sudo'), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
    chmodSync(folder, 0o777)
    const spec = world.spec({})
    await world.provider.create(spec)
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    const asUser = (script: string) => world.run(box!, 'user', script)
    expect(await asUser('id -u')).toBe('1000\n')
    for (const script of [
      'sudo -n true',
      'touch /usr/local/bin/git',
      'touch /opt/gantry/config/x',
      'ls /var/lib/gantry',
      'mv /workspace /workspace2',
    ])
      await expect(asUser(script), script).rejects.toThrow(script)
    await asUser('touch /workspace/a /home/user/a')
  })

  test('[E2B7] an agent that has ended is exited with its last words, and is not started again', async () => {
    const spec = world.spec({})
    await world.provider.create(spec)
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    await until(() => readBox(box?.folder, 'var/lib/gantry/agent.log'))
    await world.run(box!, 'root', 'kill -9 $(cut -d" " -f1 /var/lib/gantry/launch/process)')
    const ended = { state: 'exited', reason: expect.stringContaining('read gatewayUrl') as string }
    await until(async () => (await world.provider.get(spec.sessionId, 1))?.state === 'exited')
    expect(await world.provider.get(spec.sessionId, 1)).toMatchObject(ended)
    expect(await world.provider.create(spec)).toMatchObject(ended)
    expect(agentsOf(world, spec.sessionId)).toBe(0)
  })

  longTest('[E2B7] a paused sandbox is exited, and looking does not wake it', async () => {
    const spec = world.spec({})
    await world.provider.create(spec)
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    world.double.pause(box!.id)
    const paused = { state: 'exited', reason: 'The sandbox is paused' }
    expect(await world.provider.get(spec.sessionId, 1)).toMatchObject(paused)
    expect(await world.provider.create(spec)).toMatchObject(paused)
    expect(world.double.sandboxes().find(({ sandboxID }) => sandboxID === box!.id)?.state).toBe(
      'paused',
    )
    world.double.wake(box!.id)
    expect(await world.provider.get(spec.sessionId, 1)).toMatchObject({ state: 'running' })
  })

  longTest('[E2B6] processes are limited where the session has a limit', async () => {
    const limits = { memoryMb: null, processes: 77, lifetimeSeconds: 600 }
    const spec = world.spec({ limits })
    await world.provider.create(spec)
    await running(spec.sessionId)
    const [box] = world.boxes(spec.sessionId, 1)
    const pid = (box?.pids() ?? []).find((each) => isAgent(each))
    expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/Max processes +77 +77/)
  })

  test('[E2B12] the double was asked nothing that E2B does not know', () => {
    expect(world.double.refused).toEqual([])
  })

  async function duplicate(sessionId: string, organisation: string): Promise<void> {
    const metadata = { gantry: 'test', organisation, session: sessionId, generation: '1' }
    const body = { templateID: 'gantry', timeout: 60, metadata: { ...metadata, role: 'session' } }
    const response = await fetch(`${world.double.url}/v2/sandboxes`, {
      method: 'POST',
      headers: { 'x-api-key': world.double.apiKey },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(201)
  }
})

/** Where in what the box wrote the text is. */
const found = (folder: string | undefined, text: string) =>
  execFileSync('sh', [
    '-c',
    'grep -rlF -- "$1" "$2/upper" "$2/tmp" || true',
    'sh',
    text,
    folder ?? '',
  ])
    .toString()
    .trim()

const readBox = (folder: string | undefined, path: string) => {
  try {
    return readFileSync(join(folder ?? '', 'upper', path), 'utf8')
  } catch {
    return ''
  }
}

const agentsOf = (world: E2bWorld, sessionId: string) =>
  world.boxes(sessionId, 1).flatMap((box) => box.pids().filter((pid) => isAgent(pid))).length

const withUser = (url: string, user: string) => url.replace('://', `://${user}@`)
