import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { prepareControlPlane } from '../../local/stack/control-plane.ts'
import { freePort } from '../../local/state/ports.ts'
import type { SandboxInfo, SandboxProvider, SnapshotInfo } from '../../src/core/ports.ts'
import { tempDir, until } from '../local/support.ts'
import { startE2bWorld } from '../support/e2b-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'

const why = whyNoMachines()

describe.skipIf(why !== null)(`hosts of the E2B adapter${why ?? ''}`, { timeout: 240_000 }, () => {
  test.each(['workerd', 'deno'] as const)(
    '[E2B13] inside %s a sandbox starts, is copied, starts from the copy and ends',
    async (kind) => {
      const world = await startE2bWorld()
      onTestFinished(() => world.close())
      const port = await freePort()
      const launch = await prepareControlPlane({
        kind,
        port,
        stateDir: tempDir(),
        mark: randomBytes(8).toString('hex'),
        entry: join(root, 'test', 'support', 'e2b-worker.ts'),
        objects: { PROVIDER: 'ProviderObject' },
        bindings: {},
        healthPath: '/',
      })
      const host = await launch()
      onTestFinished(() => host.stop())

      async function call<T>(method: keyof SandboxProvider, ...args: unknown[]): Promise<T> {
        const body = JSON.stringify({ options: world.options, method, args })
        const response = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body })
        const answer = (await response.json()) as { value?: T; code?: string; message?: string }
        if (answer.value === undefined) throw new Error(`${answer.code}: ${answer.message}`)
        return answer.value
      }
      const running = ({ sessionId, generation }: { sessionId: string; generation: number }) =>
        until(async () => {
          const info = await call<SandboxInfo | null>('get', sessionId, generation)
          return info?.state === 'running'
        }, 240_000)

      const spec = world.spec({})
      await call('create', spec)
      await running(spec)
      await world.write(spec.sessionId, 1, 'a.txt', 'work')
      const { sessionId, organisationId } = spec
      const snapshotId = `snp_${'1'.repeat(20)}`
      const order = { snapshotId, organisationId, sessionId, generation: 1, secrets: [] }
      expect((await call<SnapshotInfo>('snapshot', order)).bytes).toBeGreaterThan(0)
      await call('extend', sessionId, 1, 500)
      await call('stop', sessionId, 1)
      const next = { ...spec, generation: 2, snapshotId }
      await call('create', next)
      await running(next)
      expect(await world.read(sessionId, 2, 'a.txt')).toBe('work')
      expect(await call<SandboxInfo[]>('list', organisationId)).toHaveLength(1)
      await call('stop', sessionId, 2)
      await call('deleteSnapshot', organisationId, snapshotId)
      expect(await call('get', sessionId, 2)).toBeNull()
      expect((await call<{ ok: boolean }[]>('check')).every(({ ok }) => ok)).toBe(true)
      await expect(call('extend', sessionId, 2, 5)).rejects.toThrow('not_found')
      expect(await world.leftovers()).toEqual([])
      expect(world.double.refused).toEqual([])
    },
  )
})
