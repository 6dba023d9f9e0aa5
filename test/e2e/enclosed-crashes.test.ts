import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findProcesses, sandboxMark } from '../../local/processes/processes.ts'
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
  startCrashes,
} from './agent-crashes-kit.ts'
import { nextPrompt } from './recovery-kit.ts'
import { useRealStack } from './support.ts'

// A sample of agent-crashes.test.ts with OpenCode behind walls: the agent that builds them dies, and all inside with it.

let crashes: Crashes
let people: People
const effects = new Effects()
const stack = useRealStack('workerd', async () => {
  crashes = await startCrashes()
  const GANTRY_PRIVATE_HOSTS = await effects.listen()
  return { hostOptions: { node: crashes.node }, env: { GANTRY_PRIVATE_HOSTS } }
})
beforeAll(async () => void (people = await prepareProject(stack(), effects)))
const scene = (): Scene => ({ stack: stack(), crashes, effects, people })
afterAll(() => {
  crashes.close()
  effects.close()
  rmSync(dirname(crashes.node), { recursive: true, force: true })
})

const sample = new Set([
  ...['manifest.applied 1', 'opencode.spawned 1', 'ready.before 1'],
  ...['prompt.after-send 1', 'answer.received 1', 'command.received 2', 'upstream.answered 1'],
  ...['execute.begun 1', 'execute.done 1', 'turn.before-end 1', 'evidence.collected 1'],
])
const chosen = <T extends { point: string; hit: number }>(aims: readonly T[]) =>
  aims.filter(({ point, hit }) => sample.has(`${point} ${hit}`))

describe.concurrent('an agent with an enclosure', { timeout: 300_000 }, () => {
  test.for(chosen(booting))(
    '[BOX11] [LIFE2] [WALL6] killed while it boots, at hit $hit of $point: the next one does all the work, once, behind walls',
    async (aim) => {
      const { box, ...driven } = await struck(scene(), aim)
      expect(driven.turn).toMatchObject({ state: 'completed', text: 'All done.' })
      await expectOnce(scene(), { box, ...driven }, aim)
      expect((await box.view()).sandbox.enclosure?.level).toBe('full')
      expect(findProcesses({ marks: [`${sandboxMark}=${box.id}.1`] })).toEqual([])
      await box.post('/close')
    },
  )

  test.for(chosen(working))(
    '[BOX11] [CALL7] [LIFE7] [WALL6] killed at hit $hit of $point: all inside ends, the next one is ready behind walls, effects are once or unknown',
    async (aim) => {
      const { box, ...driven } = await struck(scene(), aim)
      expect(endings[aim.point] ?? ['interrupted']).toContain(driven.turn.state)
      await expectOnce(scene(), { box, ...driven }, aim)
      expect(findProcesses({ marks: [`${sandboxMark}=${box.id}.1`] })).toEqual([])
      expect(await nextPrompt(stack(), box)).toContain('the sandbox in which you worked has ended')
      expect((await box.view()).sandbox.enclosure?.level).toBe('full')
      await box.post('/close')
    },
  )
})

test('the sample is all there', () => {
  expect([...chosen(booting), ...chosen(working)]).toHaveLength(sample.size)
})
