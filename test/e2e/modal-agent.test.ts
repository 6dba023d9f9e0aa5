import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { buildAgent } from '../../build/agent.ts'
import { remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { modelRows, parseModel, scriptedModelId } from '../../src/contract/models.ts'
import { buildManifest } from '../../src/core/session/manifest/files.ts'
import { tempDir } from '../local/support.ts'
import { serveSockets } from '../sandbox-agent/link/socket-server.ts'
import { whyNoModal } from '../support/modal-double.ts'
import { startModalWorld } from '../support/modal-world.ts'
import { processesOf } from '../support/sandbox-namespace.ts'
import { until } from './support.ts'

const whyNot = whyNoModal()
const title = whyNot === null ? 'an agent at Modal' : `an agent at Modal (not here: ${whyNot})`

describe.skipIf(whyNot !== null)(title, () => {
  test('[MODAL11] the real agent starts OpenCode at the literal places, and two do so at once', async () => {
    const agentFile = join(tempDir(), 'agent.mjs')
    await buildAgent(agentFile)
    const world = await startModalWorld(readFileSync(agentFile, 'utf8'))
    onTestFinished(() => world.close(), 60_000)
    const specs = [1, 2].map(() => world.spec())
    const models = modelRows([])
    const manifest = await buildManifest(
      {
        sessionId: specs[0]?.sessionId ?? '',
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
    const gateway = await serveSockets(
      (text, peer) => {
        if (text === 'ping') return
        const { t, reason } = JSON.parse(text) as { t: string; reason?: string }
        if (t === 'hello') peer.send({ t: 'welcome', protocol: 1, ackedSeq: 0 })
        if (t === 'ready') ready.add(peer.authorization)
        if (t === 'failed') failed.push(String(reason))
      },
      (request, response) => {
        const isManifest = request.url?.endsWith('/manifest') === true
        const answer = isManifest ? manifest : { values: {}, files: [] }
        response.writeHead(200).end(JSON.stringify(answer))
      },
    )
    const gatewayUrl = gateway.url.replace('ws:', 'http:')
    await world.double.openPort(Number(new URL(gatewayUrl).port))
    for (const spec of specs) await world.provider.create({ ...spec, gatewayUrl })
    await until('both are ready', 90_000, () => {
      expect(failed).toEqual([])
      return ready.size === 2
    })
    expect([...ready].sort()).toEqual(specs.map(({ token }) => `Bearer ${token}`).sort())
    for (const { sessionId } of specs) {
      expect(await world.provider.get(sessionId, 1)).toMatchObject({ state: 'running' })
      const [machine] = await world.machines(sessionId, 1)
      if (machine === undefined) throw new Error('There is no machine')
      // OpenCode runs as the sandbox's user, on the literal port, behind a password.
      const users = await world.run(machine, 'root', 'ps -o user= -C opencode | sort -u')
      expect(users.trim()).toBe('user')
      const address = 'http://127.0.0.1:4096/session'
      const code = `fetch('${address}').then((answer) => console.log(answer.status))`
      const status = await world.run(machine, 'user', `/opt/gantry/bin/node -e "${code}"`)
      expect(status.trim()).toBe('401')
      expect(processesOf(machine.pid).length).toBeGreaterThan(3)
      await world.provider.stop(sessionId, 1)
      expect(processesOf(machine.pid)).toEqual([])
    }
    expect(world.double.refused).toEqual([])
  })
})
