import { expect } from 'vitest'
import { expectUnavailable, isAlive, lifetime, type SandboxCase } from './tools.ts'

export const endingCases = {
  'stop twice': {
    title: '[PROV5] a sandbox that is stopped is gone with its agent; again is success',
    run: async ({ newSpec, start, stop, ended, write, read, tokens }) => {
      const spec = newSpec()
      await start(spec)
      await write(spec, 'a.txt', 'x')
      await stop(spec)
      await stop(spec)
      await ended(spec)
      expect(await tokens(spec)).toEqual([])
      expect(await read(spec, 'a.txt')).toBeNull()
    },
  },
  'stop unknown': {
    title: '[PROV5] stopping what is not there is success',
    run: async ({ newSpec, stop }) => {
      await stop(newSpec())
    },
  },
  'stop while it starts': {
    title: '[PROV5] a sandbox is stopped at whatever point of its start',
    run: async ({ provider, newSpec, stop, ended, tokens }) => {
      const spec = newSpec()
      const creating = provider.create(spec).catch(expectUnavailable)
      await stop(spec)
      await creating
      // Which of the two came first was open; this one is after both.
      await stop(spec)
      await ended(spec)
      expect(await tokens(spec)).toEqual([])
    },
  },
  'killed by the vendor': {
    title: '[PROV5] a sandbox that the vendor has lost is not said to run',
    run: async ({ world, newSpec, start, stop, ended, listed }) => {
      const spec = newSpec()
      await start(spec)
      await world.kill(spec.sessionId, spec.generation)
      await ended(spec)
      expect((await listed(spec)).filter(isAlive)).toEqual([])
      await stop(spec)
    },
  },
  lifetime: {
    title: '[PROV6] a sandbox ends by itself after its lifetime',
    run: async ({ provider, newSpec, ended, tokens }) => {
      const spec = newSpec({ limits: lifetime(2) })
      expect(isAlive(await provider.create(spec))).toBe(true)
      await ended(spec)
      expect(await tokens(spec)).toEqual([])
    },
  },
  extend: {
    title: '[PROV6] a sandbox lives for as long as it was last told, counted from then',
    run: async ({ newSpec, start, extend, ended, get, tokens }) => {
      const [one, two] = [newSpec({ limits: lifetime(600) }), newSpec({ limits: lifetime(600) })]
      await start(one)
      await start(two)
      await extend(one, 4)
      await extend(one, 600)
      await extend(two, 4)
      // By then the first were over, too, had it not been told to stay.
      await ended(two)
      expect(await get(one)).toMatchObject({ state: 'running' })
      expect(await tokens(one)).toEqual([one.token])
    },
  },
  'extend what is not there': {
    title: '[PROV6] what is not there cannot be extended',
    run: async ({ newSpec, start, stop, ended, extend }) => {
      const spec = newSpec()
      await expect(extend(spec, 60)).rejects.toMatchObject({ code: 'not_found' })
      await start(spec)
      await stop(spec)
      await ended(spec)
      await expect(extend(spec, 60)).rejects.toMatchObject({ code: 'not_found' })
    },
  },
} satisfies Record<string, SandboxCase>
