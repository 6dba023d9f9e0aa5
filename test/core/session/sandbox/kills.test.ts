import { expect, test } from 'vitest'
import { gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { fair, FaultySandboxes } from '../../../support/faulty-sandboxes.ts'
import { eventsOf, prompt, runningIn, viewOf } from '../../../support/lifecycle.ts'
import { testCaller, TestSession } from '../../../support/session.ts'
import { testTools } from '../../../support/tools.ts'

const slow = { lost: 0, answerLost: 0, slow: 100 }

/** A session that is brought to some point, and then loses something. */
class Scene {
  readonly session: TestSession
  readonly line: FaultySandboxes
  /** Runs of a tool that must not run twice. */
  readonly effects: string[] = []
  turnId: string | null = null
  called: Promise<unknown> = Promise.resolve()
  #held: (() => void)[] = []
  #linked = 1

  constructor() {
    const [sample] = testTools
    if (!sample) throw new Error('No tool')
    this.session = new TestSession([
      gatewayTool({
        definition: { ...sample.definition, name: 'once' },
        repeatable: false,
        run: async (_, { operationId }) => {
          this.effects.push(operationId)
          await new Promise<void>((resolve) => this.#held.push(resolve))
          return { success: true, result: '' }
        },
      }),
    ])
    // Whatever a dead instance has sent is carried out all the same.
    this.line = new FaultySandboxes(this.session.sandboxes, () => 0)
    this.session.provider = this.line
  }

  readonly phases = {
    creating: async () => {
      this.line.weather = slow
      await this.session.pass(0)
      expect((await viewOf(this.session)).sandbox.state).toBe('creating')
    },
    booting: async () => {
      await this.session.pass(0)
      expect((await viewOf(this.session)).sandbox.state).toBe('booting')
    },
    ready: async () => {
      await this.session.pass(0)
      await this.session.connect()
    },
    'mid-turn': async () => {
      await this.phases.ready()
      this.turnId = (await prompt(this.session)).id
      await this.session.receive({
        t: 'result',
        commandId: this.turnId,
        ok: true,
        data: { sent: true },
      })
    },
    'mid-tool': async () => {
      await this.phases['mid-turn']()
      this.called = this.session.call('once', 'x').catch(() => undefined)
      await this.session.settle()
      expect(this.effects).toHaveLength(1)
    },
    'mid-snapshot': async () => {
      await this.phases.ready()
      this.line.weather = slow
      await this.session.pass(30 * 60_000)
      expect((await viewOf(this.session)).sandbox.state).toBe('ready')
    },
  }

  readonly deaths = {
    machine: async () => {
      this.session.sandboxes.running.clear()
      if (this.session.linked) await this.session.cut()
    },
    link: async () => {
      if (this.session.linked) await this.session.cut()
    },
    'control plane': async () => {
      this.#held = []
      await this.line.abandon()
      this.session.restart()
    },
    'control plane, then machine': async () => {
      await this.deaths['control plane']()
      await this.deaths.machine()
    },
  }

  /** The line is good again, and whatever machine is there calls. */
  async recover(): Promise<string> {
    this.line.weather = fair
    this.line.release()
    this.#held.splice(0).forEach((resolve) => resolve())
    await this.session.settle()
    for (let round = 0; round < 40; round += 1) {
      await this.session.pass(10_000)
      const { sandbox } = await viewOf(this.session)
      if (sandbox.state === 'ready' && this.session.linked) return 'ready'
      if (['failed', 'stopped'].includes(sandbox.state)) return sandbox.state
      if (!runningIn(this.session).includes(sandbox.generation)) continue
      this.#linked = sandbox.generation
      await this.session.connect({ generation: this.#linked })
    }
    throw new Error('It does not recover')
  }
}

const { phases, deaths } = new Scene()
const cases = Object.keys(phases).flatMap((phase) =>
  Object.keys(deaths).map((death) => [phase, death] as const),
)

test.each(cases)(
  '[LIFE17] %s, the %s dies: the session recovers, effects happen once, and losses are told',
  async (phase, death) => {
    const scene = new Scene()
    const { session } = scene
    await session.create({ sandbox: 'local' })
    await scene.phases[phase as keyof typeof phases]()
    await scene.deaths[death as keyof typeof deaths]()
    const state = await scene.recover()
    const view = await viewOf(session)
    expect(['ready', 'stopped']).toContain(state)
    expect(runningIn(session)).toEqual(state === 'ready' ? [view.sandbox.generation] : [])
    expect(scene.effects.length).toBeLessThanOrEqual(1)

    const machineLost = death.endsWith('machine') && !['creating'].includes(phase)
    if (machineLost && state === 'ready') expect(view.sandbox.generation).toBeGreaterThan(1)
    if (death === 'link') expect(eventsOf(session, 'sandbox.replaced')).toEqual([])
    if (scene.turnId !== null) await checkTurn(scene, machineLost)
    if (phase === 'mid-tool') await checkCall(scene, view.sandbox.generation)
  },
)

/** The turn goes on in the sandbox that has it, or is interrupted; it is never sent again. */
async function checkTurn({ session, turnId }: Scene, machineLost: boolean): Promise<void> {
  const turn = await session.actor.api.turns.get(testCaller, String(turnId))
  expect(turn.state).toBe(machineLost ? 'interrupted' : 'running')
  expect(eventsOf(session, 'turn.started')).toHaveLength(1)
  expect(session.commands().map(({ id }) => id)).not.toContain(turnId)
  if (!machineLost) return
  await prompt(session, 'next')
  const notice = session.commands().at(-1)?.body['notice']
  expect(notice).toContain('The last turn was interrupted')
  expect(notice).toContain('Lost: All files')
  expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([{ interruptedTurnId: turnId }])
}

/** Asked again, by whichever sandbox is there: the answer of the one run, or that nobody knows. */
async function checkCall({ session, effects }: Scene, generation: number): Promise<void> {
  const again = session.call('once', 'x', {}, generation)
  await session.settle()
  const { body } = await again
  expect(effects).toHaveLength(1)
  expect(body).toMatch(/"success":true|Outcome unknown/)
}
