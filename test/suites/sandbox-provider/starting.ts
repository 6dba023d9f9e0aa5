import { expect } from 'vitest'
import { expectUnavailable, type SandboxCase } from './tools.ts'

export const startingCases = {
  'create again': {
    title: '[PROV1] creating the same session and generation again is the same sandbox',
    run: async ({ provider, newSpec, start, tokens }) => {
      const spec = newSpec()
      const info = await start(spec)
      const { sessionId, generation } = spec
      expect(info).toMatchObject({ sessionId, generation, state: 'running', reason: null })
      expect(await provider.create(spec)).toEqual(info)
      expect(await tokens(spec)).toEqual([spec.token])
    },
  },
  'create at once': {
    title: '[PROV1] ten creates of one sandbox at once make one',
    run: async ({ provider, newSpec, running, tokens, listed }) => {
      const spec = newSpec()
      await Promise.all(Array.from({ length: 10 }, () => provider.create(spec)))
      await running(spec)
      expect(await tokens(spec)).toEqual([spec.token])
      expect(await listed(spec)).toHaveLength(1)
    },
  },
  'create, answer lost': {
    title: '[PROV1] a sandbox that was created, but whose answer was lost, is found again',
    run: async ({ world, provider, newSpec, running, tokens, listed }) => {
      const spec = newSpec()
      world.loseNextAnswer()
      // A provider may look for what it has made before it gives up, and so know better.
      await provider.create(spec).catch(expectUnavailable)
      await provider.create(spec)
      await running(spec)
      expect(await tokens(spec)).toEqual([spec.token])
      expect(await listed(spec)).toHaveLength(1)
    },
  },
  'create, a fault': {
    title: '[PROV1] a create that failed can be repeated',
    run: async ({ world, provider, newSpec, running, tokens }) => {
      for (const kind of ['limited', 'broken', 'cut'] as const) {
        const spec = newSpec()
        world.failNext(kind)
        await provider.create(spec).catch(expectUnavailable)
        await provider.create(spec)
        await running(spec)
        expect(await tokens(spec), kind).toEqual([spec.token])
      }
    },
  },
  'two generations': {
    title: '[PROV1] two generations of one session are two sandboxes',
    run: async ({ newSpec, start, stop, get, tokens }) => {
      const old = newSpec()
      const next = newSpec({ sessionId: old.sessionId, generation: 2 })
      await start(old)
      await start(next)
      await stop(old)
      expect(await get(next)).toMatchObject({ state: 'running' })
      expect(await tokens(old)).toEqual([])
      expect(await tokens(next)).toEqual([next.token])
    },
  },
  'several sessions': {
    title: '[PROV2] five sessions at once have a sandbox each, and end each for itself',
    run: async ({ newSpec, start, stop, write, read, tokens }) => {
      const specs = Array.from({ length: 5 }, () => newSpec())
      await Promise.all(specs.map(start))
      for (const spec of specs) await write(spec, 'whose.txt', spec.sessionId)
      for (const spec of specs) expect(await read(spec, 'whose.txt')).toBe(spec.sessionId)
      await Promise.all(specs.slice(1).map(stop))
      for (const [index, spec] of specs.entries())
        expect(await tokens(spec)).toEqual(index === 0 ? [spec.token] : [])
      expect(await read(specs[0] as (typeof specs)[number], 'whose.txt')).not.toBeNull()
    },
  },
} satisfies Record<string, SandboxCase>
