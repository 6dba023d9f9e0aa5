import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { crashPoints } from '../../sandbox-agent/crash-points.ts'
import {
  booting,
  endings,
  expectOnce,
  type Scene,
  struck,
  working,
} from './agent-crashes-checks.ts'
import {
  type Crashes,
  Effects,
  type People,
  prepareProject,
  printCrashes,
  startCrashes,
} from './agent-crashes-kit.ts'
import { nextPrompt } from './recovery-kit.ts'
import { useRealStack } from './support.ts'

let crashes: Crashes
let people: People
const effects = new Effects()
const stack = useRealStack('workerd', async () => {
  crashes = await startCrashes()
  // With an enclosure: enclosed-crashes.test.ts.
  return { hostOptions: { node: crashes.node }, env: { GANTRY_ENCLOSURE: 'off' } }
})
beforeAll(async () => void (people = await prepareProject(stack(), effects)))
const scene = (): Scene => ({ stack: stack(), crashes, effects, people })
afterAll(() => {
  crashes.close()
  effects.close()
  rmSync(dirname(crashes.node), { recursive: true, force: true })
  process.stdout.write(`\n${printCrashes(crashes)}\n`)
})

describe.concurrent('an agent', { timeout: 300_000 }, () => {
  test.for(booting)(
    '[BOX11] [LIFE2] [TURN2] killed while it boots, at hit $hit of $point: the next one does all the work, once',
    async (aim) => {
      const { box, ...driven } = await struck(scene(), aim)
      expect(driven.turn).toMatchObject({ state: 'completed', text: 'All done.' })
      await expectOnce(scene(), { box, ...driven }, aim)
      expect(await nextPrompt(stack(), box)).toBe('')
      await box.post('/close')
    },
  )

  test.for(working)(
    '[BOX11] [BOX4] [CALL7] [LINK2] [LIFE7] killed at hit $hit of $point: the next one is ready, effects are once or unknown, the model is told',
    async (aim) => {
      const { box, ...driven } = await struck(scene(), aim)
      expect(endings[aim.point] ?? ['interrupted']).toContain(driven.turn.state)
      await expectOnce(scene(), { box, ...driven }, aim)
      const told = await nextPrompt(stack(), box)
      expect(told).toContain('the sandbox in which you worked has ended')
      expect(told.includes('The last turn was interrupted')).toBe(
        driven.turn.state === 'interrupted',
      )
      await box.post('/close')
    },
  )
})

test('[BOX11] every crash point of the agent was hit and has killed one', () => {
  const missed = crashPoints.filter((point) => !crashes.kills.has(point))
  expect(missed).toEqual([])
})
