import { expect } from 'vitest'
import { cryptoCharacters } from '../../../src/adapters/web-crypto.ts'
import {
  expectUnavailable,
  isAlive,
  organisation,
  otherOrganisation,
  type SandboxCase,
} from './tools.ts'

export const askingCases = {
  'get unknown': {
    title: '[PROV3] what the provider does not know is null',
    run: async ({ newSpec, get }) => {
      expect(await get(newSpec())).toBeNull()
    },
  },
  away: {
    title: '[PROV3] a provider that cannot be reached is an error, never a not-found or a success',
    run: async ({ world: { away }, newSpec, newSnapshotId }) => {
      const spec = newSpec()
      const { sessionId } = spec
      const snapshotId = newSnapshotId()
      const order = { snapshotId, organisationId: organisation, sessionId, generation: 1 }
      for (const work of [
        () => away.create(spec),
        () => away.get(sessionId, 1),
        () => away.list(organisation),
        () => away.extend(sessionId, 1, 60),
        () => away.stop(sessionId, 1),
        () => away.snapshot({ ...order, secrets: [] }),
        () => away.deleteSnapshot(organisation, snapshotId),
      ])
        await expect(work(), work.toString()).rejects.toMatchObject({ code: 'sandbox_unavailable' })
    },
  },
  'a fault': {
    title: '[PROV3] a failed answer is an error or tried again, never a not-found',
    run: async ({ world, newSpec, start, get, listed }) => {
      const spec = newSpec()
      await start(spec)
      for (const kind of ['limited', 'broken', 'cut'] as const) {
        world.failNext(kind)
        expect(await get(spec).catch(expectUnavailable), kind).not.toBeNull()
        world.failNext(kind)
        const found = await listed(spec).catch(expectUnavailable)
        if (found !== undefined) expect(found, kind).toHaveLength(1)
        expect(await get(spec), kind).toMatchObject({ state: 'running' })
      }
    },
  },
  list: {
    title: '[PROV4] a list has everything of one organisation and nothing of another',
    run: async ({ provider, newSpec, start, stop, ended, get, listed }) => {
      const [one, two] = [newSpec(), newSpec()]
      const foreign = newSpec({ organisationId: otherOrganisation })
      for (const spec of [one, two, foreign]) {
        await start(spec)
        expect(await listed(spec)).toEqual([await get(spec)])
      }
      expect(await listed(foreign, organisation)).toEqual([])
      expect(await listed(one, otherOrganisation)).toEqual([])
      await stop(one)
      await ended(one)
      expect((await listed(one)).filter(isAlive)).toEqual([])
      expect(await listed(two)).toHaveLength(1)
      expect(await provider.list(`org_${cryptoCharacters(20)}`)).toEqual([])
    },
  },
  check: {
    title:
      '[PROV10] a check gives one result each, a hint where something fails, and starts nothing',
    run: async ({ world, provider }) => {
      const before = await provider.list(organisation)
      const checks = await provider.check()
      expect(checks.length).toBeGreaterThan(0)
      expect(new Set(checks.map(({ name }) => name)).size).toBe(checks.length)
      for (const { message } of checks) expect(message).not.toBe('')
      expect(await provider.list(organisation)).toEqual(before)
      const failures = [...checks, ...(await world.away.check())].filter(({ ok }) => !ok)
      expect(failures.length).toBeGreaterThan(0)
      for (const { name, hint } of failures) expect(hint, name).toBeTruthy()
    },
  },
  layout: {
    title: '[PROV10] the places in a sandbox are known before it is there',
    run: async ({ provider, newSpec }) => {
      const { sessionId } = newSpec()
      const layout = provider.layout(sessionId, 1)
      expect(provider.layout(sessionId, 1)).toEqual(layout)
      for (const path of [layout.home, layout.workspace, layout.configDir, layout.envFile])
        expect(path).toMatch(/^\//)
    },
  },
} satisfies Record<string, SandboxCase>
