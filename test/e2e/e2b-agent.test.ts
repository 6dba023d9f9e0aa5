import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { buildAgent } from '../../build/agent.ts'
import { remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { modelRows, parseModel, scriptedModelId } from '../../src/contract/models.ts'
import type { SandboxSpec } from '../../src/core/ports.ts'
import { buildManifest } from '../../src/core/session/manifest/files.ts'
import { tempDir } from '../local/support.ts'
import { serveSockets } from '../sandbox-agent/link/socket-server.ts'
import { publicName } from '../support/e2b-double-box.ts'
import { type E2bWorld, startE2bWorld } from '../support/e2b-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { until } from './support.ts'

const why = whyNoMachines()
const title = why === null ? 'an agent at E2B' : `an agent at E2B (not here: it ${why})`

describe.skipIf(why !== null)(title, { timeout: 180_000 }, () => {
  test('[E2B16] the real agent starts OpenCode at the literal places, two at once, and again from a snapshot', async () => {
    const agentFile = join(tempDir(), 'agent.mjs')
    await buildAgent(agentFile)
    const world = await startE2bWorld(readFileSync(agentFile, 'utf8'))
    onTestFinished(() => world.close(), 60_000)
    const gateway = await startGateway()
    world.double.ports.push(gateway.port)
    const gatewayUrl = `http://${publicName}:${gateway.port}`
    const specs = [1, 2].map(() => world.spec({ gatewayUrl }))
    for (const spec of specs) await world.provider.create(spec)
    await gateway.isReady(...specs)
    for (const spec of specs) await expectLiteral(world, spec)

    const [spec] = specs as [SandboxSpec, SandboxSpec]
    await world.write(spec.sessionId, 1, 'a.txt', 'work')
    const { organisationId, sessionId } = spec
    const snapshotId = `snp_${'1'.repeat(20)}`
    const order = { snapshotId, organisationId, sessionId, generation: 1, secrets: [] }
    await world.provider.snapshot(order)
    expect(await world.provider.get(sessionId, 1)).toMatchObject({ state: 'running' })
    await world.provider.stop(sessionId, 1)
    const next = world.spec({ gatewayUrl, sessionId, generation: 2, snapshotId })
    await world.provider.create(next)
    await gateway.isReady(next)
    await expectLiteral(world, next)
    expect(await world.read(sessionId, 2, 'a.txt')).toBe('work')

    for (const each of [...specs, next]) await world.provider.stop(each.sessionId, each.generation)
    await world.provider.deleteSnapshot(organisationId, snapshotId)
    expect(await world.leftovers()).toEqual([])
    expect(world.double.refused).toEqual([])
  })
})

/** OpenCode runs as the sandbox's user, on the literal port, behind a password; the gate's files are not its own. */
async function expectLiteral(world: E2bWorld, { sessionId, generation }: SandboxSpec) {
  expect(await world.provider.get(sessionId, generation)).toMatchObject({ state: 'running' })
  const [box] = world.boxes(sessionId, generation, 'session')
  if (box === undefined) throw new Error('There is no sandbox')
  expect((await world.run(box, 'root', 'ps -o user= -C opencode | sort -u')).trim()).toBe('user')
  const code = `fetch('http://127.0.0.1:4096/session').then((answer) => console.log(answer.status))`
  const status = await world.run(box, 'user', `/opt/gantry/bin/node -e "${code}"`)
  expect(status.trim()).toBe('401')
  await world.run(box, 'user', 'test -r /home/user/.config/opencode/plugin/proliferate.mjs')
  for (const script of ['touch /opt/gantry/config/x', 'cat /var/lib/gantry/agent.log'])
    await expect(world.run(box, 'user', script)).rejects.toThrow(script)
}

/** As much of a control plane as an agent needs to be ready. */
async function startGateway() {
  const models = modelRows([])
  const manifest = await buildManifest(
    {
      sessionId: `ses_${'1'.repeat(30)}`,
      layout: remoteLayout,
      prompt: 'You are a test',
      model: parseModel(scriptedModelId, models),
      models,
      effort: null,
      mode: 'scratch',
      tools: [],
      trustProjectConfig: false,
    },
    createWebCrypto([{ id: 'k', secret: new Uint8Array(32) }]),
  )
  const ready = new Set<string>()
  const failed: string[] = []
  const { url } = await serveSockets(
    (text, peer) => {
      if (text === 'ping') return
      const { t, reason } = JSON.parse(text) as { t: string; reason?: string }
      if (t === 'hello') peer.send({ t: 'welcome', protocol: 1, ackedSeq: 0 })
      if (t === 'ready') ready.add(peer.authorization)
      if (t === 'failed') failed.push(String(reason))
    },
    (request, response) => {
      const isManifest = request.url?.endsWith('/manifest') === true
      response.writeHead(200).end(JSON.stringify(isManifest ? manifest : { values: {}, files: [] }))
    },
  )
  return {
    port: Number(new URL(url).port),
    isReady: (...specs: SandboxSpec[]) =>
      until('they are ready', 90_000, () => {
        expect(failed).toEqual([])
        return specs.every(({ token }) => ready.has(`Bearer ${token}`))
      }),
  }
}
