import { expect, test } from 'vitest'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const full = { level: 'full', how: 'namespaces', why: null } as const

test('[WALL8] what a sandbox says of its walls is shown; an agent that does not say it counts as none; the next generation has to say it anew', async () => {
  const world = new RunWorld()
  const shown = async () => (await world.actor.api.self.view(testCaller)).sandbox.enclosure
  await world.begin()
  expect(await shown()).toMatchObject({ level: 'none', why: expect.stringContaining('older') })
  await world.receive({ t: 'ready', bootMs: 1, enclosure: full })
  expect(await shown()).toEqual(full)
  world.restart()
  expect(await shown()).toEqual(full)
  await world.actor.api.sandbox.replace(testCaller, 'test')
  expect(await shown()).toBeNull()
  await world.meetNext()
  expect(await shown()).toMatchObject({ level: 'none' })
})

test('[WALL9] the manifest says that the enclosure is switched off, and nothing where it is not', async () => {
  const world = await new RunWorld().begin()
  const caller = { ...testCaller, generation: 1 }
  expect(await world.actor.api.agent.manifest(caller)).not.toHaveProperty('enclosure')
  world.enclosure = 'off'
  world.restart()
  expect(await world.actor.api.agent.manifest(caller)).toHaveProperty('enclosure', 'off')
})

test('[WALL8] a level that there is not is no message of the protocol', async () => {
  const world = await new RunWorld().begin()
  const enclosure = { ...full, level: 'best' as never }
  await world.receive({ t: 'ready', bootMs: 1, enclosure })
  const { sandbox } = await world.actor.api.self.view(testCaller)
  expect(sandbox.enclosure?.level).toBe('none')
})
