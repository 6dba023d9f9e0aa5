import { afterAll, beforeAll, expect } from 'vitest'
import { cryptoCharacters } from '../../src/adapters/web-crypto.ts'
import type { SandboxSpec, SnapshotInput } from '../../src/core/ports.ts'
import { until } from '../local/support.ts'
import type { ModalMachine } from './modal-double.ts'
import { type ModalWorld, startModalWorld } from './modal-world.ts'

/** A world for one `describe`, and what its tests do again and again. */
export function useModalWorld() {
  let shown: ModalWorld
  beforeAll(async () => {
    shown = await startModalWorld()
  }, 240_000)
  afterAll(async () => {
    const { refused } = shown.double
    await shown.close()
    // [MODAL3] every request and every answer of these tests had the shapes that the app defines.
    expect(refused).toEqual([])
  }, 240_000)
  const world = () => shown

  return {
    world,
    started: async (spec: SandboxSpec): Promise<ModalMachine> => {
      const { sessionId, generation } = spec
      await shown.provider.create(spec)
      await until(async () => (await shown.tokens(sessionId, generation)).length > 0, 30_000)
      const [machine] = await shown.machines(sessionId, generation)
      if (machine === undefined) throw new Error('There is no such machine')
      return machine
    },
    stop: ({ sessionId, generation }: SandboxSpec) => shown.provider.stop(sessionId, generation),
    take: (spec: SandboxSpec, snapshotId: string, more: Partial<SnapshotInput> = {}) => {
      const { organisationId, sessionId, generation } = spec
      const order = { snapshotId, organisationId, sessionId, generation, secrets: [] }
      return shown.provider.snapshot({ ...order, ...more })
    },
    /** The app's calls to Modal during the work, each with how many of its name were before it. */
    callsOf: async (work: () => Promise<unknown>) => {
      const before = (await shown.double.state()).calls.length
      await work()
      const calls = (await shown.double.state()).calls.slice(before)
      return calls.map((on, index) => ({
        on,
        skip: calls.slice(0, index).filter((each) => each === on).length,
      }))
    },
  }
}

export const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  )

export const newSnapshotId = () => `snp_${cryptoCharacters(20)}`
