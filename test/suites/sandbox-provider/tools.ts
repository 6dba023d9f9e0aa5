import { expect } from 'vitest'
import { cryptoCharacters } from '../../../src/adapters/web-crypto.ts'
import { errorCodeOf } from '../../../src/contract/error.ts'
import type { SandboxInfo, SandboxSpec, SnapshotInput } from '../../../src/core/ports.ts'
import { until } from '../../local/support.ts'
import type { SandboxWorld } from './world.ts'

export interface SandboxCase {
  title: string
  run: (tools: Tools) => Promise<void>
}
export type Tools = ReturnType<typeof toolsOf>

export const organisation = `org_${'a'.repeat(20)}`
export const otherOrganisation = `org_${'b'.repeat(20)}`
export const snapshotName = () => `snp_${cryptoCharacters(20)}`

/** For one case: it remembers what the case has made, so that nothing is left to the next. */
export function toolsOf(world: SandboxWorld, patienceMs: number) {
  const { provider } = world
  const specs: SandboxSpec[] = []
  const snapshotIds: string[] = []
  const get = (spec: SandboxSpec) => provider.get(spec.sessionId, spec.generation)
  const stop = (spec: SandboxSpec) => provider.stop(spec.sessionId, spec.generation)
  const tokens = (spec: SandboxSpec) => world.tokens(spec.sessionId, spec.generation)
  const running = (spec: SandboxSpec): Promise<SandboxInfo> =>
    until(async () => {
      const info = await get(spec)
      if (info?.state === 'exited') throw new Error(`It has ended: ${info.reason}`)
      return info?.state === 'running' && (await tokens(spec)).length > 0 ? info : null
    }, patienceMs)
  return {
    world,
    provider,
    get,
    stop,
    /** Of each agent that runs in it. */
    tokens,
    running,
    /** Another session with another token each time. */
    newSpec: (overrides: Partial<SandboxSpec> = {}) => {
      const spec = world.spec({ organisationId: organisation, ...overrides })
      specs.push(spec)
      return spec
    },
    newSnapshotId: () => {
      const id = snapshotName()
      snapshotIds.push(id)
      return id
    },
    start: async (spec: SandboxSpec) => {
      await provider.create(spec)
      return running(spec)
    },
    ended: (spec: SandboxSpec) => until(async () => !isAlive(await get(spec)), patienceMs),
    extend: (spec: SandboxSpec, seconds: number) =>
      provider.extend(spec.sessionId, spec.generation, seconds),
    listed: async (spec: SandboxSpec, organisationId = spec.organisationId) =>
      (await provider.list(organisationId)).filter(isOf(spec)),
    write: (spec: SandboxSpec, path: string, text: string) =>
      world.write(spec.sessionId, spec.generation, path, text),
    read: (spec: SandboxSpec, path: string) => world.read(spec.sessionId, spec.generation, path),
    take: (spec: SandboxSpec, snapshotId: string, more: Partial<SnapshotInput> = {}) => {
      const { sessionId, generation, organisationId } = spec
      const order = { snapshotId, organisationId, sessionId, generation, secrets: [] }
      return provider.snapshot({ ...order, ...more })
    },
    /** At once, or by a start that only says why it ended. */
    expectNotFound: async (spec: SandboxSpec) => {
      const why = await provider.create(spec).then(
        () => until(async () => reasonOf(await get(spec)), patienceMs),
        (error: unknown) => `${errorCodeOf(error)}: ${(error as Error).message}`,
      )
      expect(why).toMatch(/not.found/i)
      expect(await tokens(spec)).toEqual([])
    },
    clean: async () => {
      await Promise.all(specs.map(stop))
      for (const id of snapshotIds) await provider.deleteSnapshot(organisation, id)
    },
  }
}

export const lifetime = (lifetimeSeconds: number) => ({
  memoryMb: null,
  processes: null,
  lifetimeSeconds,
})
export const isAlive = (info: SandboxInfo | null) => info !== null && info.state !== 'exited'
const isOf = (spec: SandboxSpec) => (info: SandboxInfo) =>
  info.sessionId === spec.sessionId && info.generation === spec.generation
const reasonOf = (info: SandboxInfo | null) => (info?.state === 'exited' ? info.reason : null)

export function expectUnavailable(error: unknown): undefined {
  expect(['sandbox_unavailable', 'rate_limited'], String(error)).toContain(errorCodeOf(error))
}
