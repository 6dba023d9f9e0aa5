import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createE2bSandboxes } from '../../src/adapters/sandboxes/e2b.ts'
import { createTokens } from '../../src/adapters/tokens.ts'
import { cryptoCharacters } from '../../src/adapters/web-crypto.ts'
import { errorCodeOf } from '../../src/contract/error.ts'
import type { SandboxSpec, SnapshotInput } from '../../src/core/ports.ts'
import { until } from '../local/support.ts'
import { type E2bWorld, isAgent, startE2bWorld, vendorReads } from '../support/e2b-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { longTest } from '../support/long.ts'

const why = whyNoMachines()

describe.skipIf(why !== null)(`snapshots at E2B${why ?? ''}`, { timeout: 240_000 }, () => {
  let world: E2bWorld
  let gateway: Server
  /** Who has called, in order. */
  const heard: string[] = []
  beforeAll(async () => {
    world = await startE2bWorld()
    gateway = createServer((request, response) => {
      heard.push(request.headers.authorization ?? '')
      response.end()
    })
    await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve))
    world.double.ports.push((gateway.address() as AddressInfo).port)
  }, 240_000)
  afterEach(() => world.double.clear())
  afterAll(async () => {
    gateway?.close()
    gateway?.closeAllConnections()
    await world?.close()
  })

  const newId = () => `snp_${cryptoCharacters(20)}`
  const url = () => `http://127.0.0.1:${(gateway.address() as AddressInfo).port}/`
  async function started(overrides: Partial<SandboxSpec> = {}): Promise<SandboxSpec> {
    const spec = world.spec({ gatewayUrl: url(), ...overrides })
    await world.provider.create(spec)
    await until(
      async () => (await world.tokens(spec.sessionId, spec.generation)).length > 0,
      20_000,
    )
    return spec
  }
  const orderOf = (spec: SandboxSpec, more: Partial<SnapshotInput> = {}): SnapshotInput => ({
    snapshotId: newId(),
    organisationId: spec.organisationId,
    sessionId: spec.sessionId,
    generation: spec.generation,
    secrets: [],
    ...more,
  })
  const machines = (role: string) =>
    world.double.sandboxes().filter(({ metadata }) => metadata['role'] === role)
  const drafts = () => world.double.templates().filter((name) => name.includes('-draft-'))

  longTest(
    '[E2B8] a copy with the memory is a live clone; it has no network and is dead in what is restored',
    async () => {
      const spec = await started()
      await until(() => heard.includes(`Bearer ${spec.token}`))
      const order = orderOf(spec)
      // Slow enough for the clone to be seen, and to call if it could.
      world.double.fault({ route: 'POST /process.Process/Start', skip: 1, delayMs: 1500 })
      const taking = world.provider.snapshot(order)
      await until(async () => (await world.tokens(spec.sessionId, 1)).length === 2, 20_000)
      const [clone] = world.boxes(spec.sessionId, 1, 'scrub')
      await expect(world.run(clone!, 'root', `curl -sm 2 ${url()}`)).rejects.toThrow('curl')
      await taking
      await world.provider.stop(spec.sessionId, 1)
      heard.length = 0
      const next = await started({ snapshotId: order.snapshotId })
      await until(() => heard.filter((each) => each === `Bearer ${next.token}`).length > 5)
      expect(heard).not.toContain(`Bearer ${spec.token}`)
      expect(await world.tokens(next.sessionId, 1)).toEqual([next.token])
    },
  )

  longTest('[E2B8] nothing of the clone runs while its files are cleaned', async () => {
    const spec = await started()
    world.double.fault({ route: 'POST /sandboxes/:id/pause', delayMs: 1500 })
    const before = world.double.calls.length
    const taking = world.provider.snapshot(orderOf(spec))
    const asked = (route: string) => world.double.calls.slice(before).includes(route)
    await until(() => asked('POST /sandboxes/:id/pause'), 20_000)
    const [clone] = world.boxes(spec.sessionId, 1, 'scrub')
    expect(clone?.pids().filter(isAgent)).toEqual([])
    expect(await world.tokens(spec.sessionId, 1)).toEqual([spec.token])
    await taking
  })

  test('[E2B8] no process of any kind comes with a snapshot: its disk was started anew', async () => {
    const spec = await started()
    const [box] = world.boxes(spec.sessionId, 1)
    const daemon = { cmd: 'sleep', args: ['4711'], tag: null, user: 'root' }
    box?.spawn(daemon, { envs: {}, cwd: '/', stdin: false })
    await until(async () => (await world.run(box!, 'root', 'ps axo args')).includes('sleep 4711'))
    const order = orderOf(spec)
    await world.provider.snapshot(order)
    const next = await started({ snapshotId: order.snapshotId })
    const [copy] = world.boxes(next.sessionId, 1)
    expect(await world.run(copy!, 'root', 'ps axo args')).not.toContain('sleep 4711')
  })

  longTest(
    '[E2B9] credentials, what was typed, temporary files and the agent’s own are not in a snapshot; the live sandbox keeps them',
    async () => {
      const spec = await started()
      const [box] = world.boxes(spec.sessionId, 1)
      const files = [
        '/home/user/.netrc',
        '/home/user/.ssh/id',
        '/home/user/.bash_history',
        '/home/user/.config/gh/hosts.yml',
        '/workspace/sub/.netrc',
        '/tmp/.proliferate_env.json',
        '/tmp/x',
        '/var/tmp/x',
      ]
      for (const file of files)
        await world.run(box!, 'user', `mkdir -p $(dirname ${file}) && echo kept > ${file}`)
      await world.run(box!, 'user', 'echo a > /home/user/notes; echo b > /workspace/b')
      await world.run(box!, 'root', 'echo r > /workspace/of-root; echo c > /opt/gantry/config/c')
      const remote = 'https://name:pass@example.com/x'
      await world.run(box!, 'user', `cd /workspace && git remote add origin ${remote}`)
      const order = orderOf(spec)
      const { bytes } = await world.provider.snapshot(order)
      expect(bytes).toBeGreaterThan(0)
      for (const file of files) expect(await world.run(box!, 'user', `cat ${file}`)).toBe('kept\n')
      expect(await world.tokens(spec.sessionId, 1)).toEqual([spec.token])

      const next = await started({ snapshotId: order.snapshotId })
      const [copy] = world.boxes(next.sessionId, 1)
      const gone = [...files, '/workspace/of-root', '/opt/gantry/config/c']
      for (const file of gone)
        await expect(world.run(copy!, 'root', `test -e ${file}`), file).rejects.toThrow(file)
      expect(await world.run(copy!, 'user', 'cat /home/user/notes /workspace/b')).toBe('a\nb\n')
      const config = await world.run(copy!, 'user', 'cat /workspace/.git/config')
      expect(config).toContain('https://example.com/x')
    },
  )

  longTest('[E2B9] any token of the session in a file refuses the snapshot', async () => {
    const spec = await started()
    const { sessionId, organisationId, generation } = spec
    const keys = [{ id: 'k1', secret: crypto.getRandomValues(new Uint8Array(32)) }]
    const { token } = await createTokens(keys, () => Date.now()).mint({
      sessionId,
      organisationId,
      generation,
    })
    await world.write(sessionId, 1, 'debug.log', `authorization: Bearer ${token}\n`)
    await expect(world.provider.snapshot(orderOf(spec))).rejects.toMatchObject({
      code: 'unprocessable',
      message: expect.stringMatching(/session token.*debug\.log/) as string,
    })
    await world.write(sessionId, 1, 'debug.log', `session ${sessionId}\n`)
    await world.provider.snapshot(orderOf(spec))
  })

  test('[E2B9] a refusal names file and secret, hides the value, and leaves nothing behind', async () => {
    const spec = await started()
    const secret = { name: 'API_KEY', value: 'canary-value-4711' }
    await world.write(spec.sessionId, 1, `a-${secret.value}.txt`, 'x')
    const order = orderOf(spec, { secrets: [secret] })
    const refusal = await world.provider.snapshot(order).catch((error: unknown) => error as Error)
    expect(errorCodeOf(refusal)).toBe('unprocessable')
    expect((refusal as Error).message).toContain('API_KEY')
    expect((refusal as Error).message).not.toContain(secret.value)
    expect(machines('scrub')).toEqual([])
    expect(drafts()).toEqual([])
    expect(world.double.templates()).not.toContain(order.snapshotId)
    expect(vendorReads(world.double)).not.toContain(secret.value)
  })

  longTest('[E2B9] a secret in a git object is found, too', async () => {
    const spec = await started()
    const [box] = world.boxes(spec.sessionId, 1)
    const secret = { name: 'API_KEY', value: 'canary-value-4711' }
    await world.write(spec.sessionId, 1, 'a.txt', secret.value)
    const commit = 'git add . && git commit -qm one && git rm -q a.txt && git commit -qm two'
    await world.run(box!, 'user', `cd /workspace && export HOME=/home/user && ${commit}`)
    for (const pack of ['true', 'git gc -q']) {
      await world.run(box!, 'user', `cd /workspace && ${pack}`)
      await expect(
        world.provider.snapshot(orderOf(spec, { secrets: [secret] })),
      ).rejects.toMatchObject({ code: 'unprocessable' })
    }
  })

  const steps: [string, object][] = [
    ['POST /sandboxes/:id/snapshots', { status: 500 }],
    ['POST /sandboxes/:id/snapshots', { lost: true }],
    ['POST /sandboxes/:id/snapshots', { doneBut: 503 }],
    ['POST /v2/sandboxes', { lost: true }],
    ['POST /v2/sandboxes', { status: 429, retryAfter: '60' }],
    ['POST /process.Process/StreamInput', { cut: true }],
    ['POST /sandboxes/:id/pause', { status: 503 }],
    ['POST /sandboxes/:id/pause', { lost: true }],
    ['POST /v2/sandboxes/:id/connect', { status: 504 }],
    ['POST /v2/sandboxes/:id/connect', { lost: true }],
    ['POST /sandboxes/:id/snapshots', { skip: 1, status: 500 }],
  ]
  longTest(
    '[E2B10] a snapshot that fails at any step leaves nothing running, and can be taken again',
    async () => {
      const spec = await started()
      await world.write(spec.sessionId, 1, 'a.txt', 'x')
      const order = orderOf(spec)
      for (const [route, fault] of steps) {
        const step = `${route} ${JSON.stringify(fault)}`
        world.double.fault({ route, ...fault })
        const failed = await world.provider.snapshot(order).catch((error: unknown) => error)
        expect(errorCodeOf(failed), step).toBe('sandbox_unavailable')
        expect(machines('scrub'), step).toEqual([])
        expect(drafts(), step).toEqual([])
        expect(await world.tokens(spec.sessionId, 1), step).toEqual([spec.token])
      }
      await world.provider.snapshot(order)
      const next = await started({ snapshotId: order.snapshotId })
      expect(await world.read(next.sessionId, 1, 'a.txt')).toBe('x')
    },
  )

  longTest(
    '[E2B10] two snapshots of one sandbox at once are taken one after the other',
    async () => {
      const spec = await started()
      const orders = [orderOf(spec), orderOf(spec)]
      await Promise.all([...orders, ...orders].map((order) => world.provider.snapshot(order)))
      for (const { snapshotId } of orders)
        expect(world.double.templates().filter((name) => name.endsWith(snapshotId))).toHaveLength(1)
      expect(machines('scrub')).toEqual([])
      expect(drafts()).toEqual([])
    },
  )

  test('[E2B10] a snapshot whose last answer was lost is found by its name, with its size', async () => {
    const spec = await started()
    const order = orderOf(spec)
    world.double.fault({ route: 'POST /sandboxes/:id/snapshots', skip: 1, lost: true })
    await expect(world.provider.snapshot(order)).rejects.toMatchObject({
      code: 'sandbox_unavailable',
    })
    await world.provider.stop(spec.sessionId, 1)
    const other = createE2bSandboxes(world.options)
    const { bytes } = await other.snapshot(order)
    expect(bytes).toBeGreaterThan(0)
    await expect(other.snapshot({ ...order, sessionId: 'ses_x' })).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })

  longTest(
    '[E2B10] what a crash has left of a snapshot goes when the sandbox is stopped',
    async () => {
      const spec = await started()
      world.double.fault({ route: 'POST /sandboxes/:id/pause', status: 500 })
      // The third list is the one by which it would clear away.
      world.double.fault({ route: 'GET /v2/sandboxes', skip: 2, status: 500 })
      await expect(world.provider.snapshot(orderOf(spec))).rejects.toThrow('E2B answered 500')
      expect(machines('scrub')).toHaveLength(1)
      expect(drafts()).toHaveLength(1)
      await world.provider.stop(spec.sessionId, 1)
      expect(world.boxes(spec.sessionId, 1)).toEqual([])
      expect(drafts()).toEqual([])
    },
  )

  longTest(
    '[E2B10] a snapshot that sandboxes still run from is not deleted, and that is told',
    async () => {
      const spec = await started()
      const order = orderOf(spec)
      await world.provider.snapshot(order)
      const next = await started({ snapshotId: order.snapshotId })
      const remove = () => world.provider.deleteSnapshot(spec.organisationId, order.snapshotId)
      await expect(remove()).rejects.toMatchObject({ code: 'sandbox_unavailable' })
      await world.provider.stop(next.sessionId, 1)
      await remove()
    },
  )

  test('[E2B12] the double was asked nothing that E2B does not know', () => {
    expect(world.double.refused).toEqual([])
  })
})
