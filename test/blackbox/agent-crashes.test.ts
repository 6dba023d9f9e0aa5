import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { booting, expectOnce, type Scene, struck, working } from '../e2e/agent-crashes-checks.ts'
import {
  type Crashes,
  Effects,
  type People,
  prepareProject,
  startCrashes,
} from '../e2e/agent-crashes-kit.ts'
import { someOf } from '../support/long.ts'
import { useSmallStack } from '../support/small-stack.ts'

// Real agents with a small OpenCode, at one point of each kind, at others with each commit. The long run has all of them
// with the real one.

let crashes: Crashes
let people: People
const effects = new Effects()
const stack = useSmallStack(async () => {
  crashes = await startCrashes()
  return crashes.node
})
beforeAll(async () => void (people = await prepareProject(stack(), effects)))
afterAll(() => {
  crashes.close()
  for (const folder of [effects.folder, dirname(crashes.node)])
    rmSync(folder, { recursive: true, force: true })
})
const scene = (): Scene => ({ stack: stack(), crashes, effects, people })

/** The call is done then, and nobody can say how far the operation has come. */
const operating = working.filter(({ ends }) => ends.startsWith('done suspect'))

describe.concurrent('an agent', { timeout: 300_000 }, () => {
  test.for(someOf(booting))(
    '[BOX11] killed while it boots, at hit $hit of $point: the next one does all the work, once',
    async (aim) => {
      const one = await struck(scene(), aim)
      expect(one.turn).toMatchObject({ state: 'completed', text: 'All done.' })
      await expectOnce(scene(), one, aim)
      await one.box.post('/close')
    },
  )

  test.for(someOf(operating))(
    '[BOX11] killed at hit $hit of $point: the next one is ready, the call has its effect once, nobody knows of the operation’s, the model is told',
    async (aim) => {
      const one = await struck(scene(), aim)
      expect(one.turn).toMatchObject({ state: 'interrupted' })
      await expectOnce(scene(), one, aim)
      const { text } = await one.box.run('What were you told?')
      expect(text).toContain('the sandbox in which you worked has ended')
      expect(text).toContain('The last turn was interrupted')
      await one.box.post('/close')
    },
  )
})
