import { expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import type { ToolCall } from '../../../../src/contract/tool.ts'
import { type GatewayTool, gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { viewOf } from '../../../support/lifecycle.ts'
import { testCaller, TestSession } from '../../../support/session.ts'
import { testTools } from '../../../support/tools.ts'

/** What it needs is away until it is back; `held` ones wait first. */
class Scene {
  readonly session: TestSession
  readonly runs: string[] = []
  isAway = true
  readonly #held: (() => void)[] = []

  constructor() {
    this.session = new TestSession([
      this.#tool('needs', {}),
      this.#tool('chosen', { callIdFrom: 'completion_id' }),
    ])
  }

  #tool(name: string, more: { callIdFrom?: string }): GatewayTool {
    const [sample] = testTools
    if (!sample) throw new Error('No tool')
    return gatewayTool({
      definition: { ...sample.definition, ...more, name },
      repeatable: true,
      run: async (_, { operationId }) => {
        this.runs.push(operationId)
        if (this.runs.length > 2) await new Promise<void>((resolve) => this.#held.push(resolve))
        if (this.isAway) throw new AppError('sandbox_unavailable', 'It is away')
        return { success: true, result: 'done' }
      },
    })
  }

  async start(): Promise<void> {
    await this.session.create({ sandbox: 'local' })
    await this.session.pass(0)
    await this.session.connect()
  }

  async release(): Promise<void> {
    this.#held.splice(0).forEach((resolve) => resolve())
    await this.session.settle()
  }

  async states(): Promise<Record<string, ToolCall['state']>> {
    const { items } = await this.session.actor.api.calls.list(testCaller, {
      limit: 50,
      after: null,
    })
    return Object.fromEntries(items.map(({ toolCallId, state }) => [toolCallId, state]))
  }
}

test('[CALL17] what a replaced sandbox has asked for and nobody settles any more is ended, except under an id that the agent has chosen', async () => {
  const scene = new Scene()
  await scene.start()
  const { session } = scene
  for (const [tool, id] of [
    ['needs', 'released'],
    ['chosen', 'mine'],
  ] as const)
    await expect(session.call(tool, id)).rejects.toMatchObject({ code: 'sandbox_unavailable' })
  const running = session.call('needs', 'running')
  await session.settle()
  const pending = { released: 'pending', mine: 'pending', running: 'pending' }
  expect(await scene.states()).toEqual(pending)

  await session.actor.api.sandbox.replace(testCaller, 'x')
  expect(await scene.states()).toEqual({ ...pending, released: 'unknown' })
  await scene.release()
  expect(JSON.parse((await running).body)).toEqual({ success: false, result: 'It is away' })
  expect(await scene.states()).toEqual({
    released: 'unknown',
    mine: 'pending',
    running: 'settled',
  })

  scene.isAway = false
  await session.pass(0)
  await session.connect({ generation: 2 })
  const again = session.call('chosen', 'mine', {}, 2)
  await session.settle()
  await scene.release()
  expect(JSON.parse((await again).body)).toMatchObject({ success: true })
  expect((await viewOf(session)).activeCalls).toBe(0)
})

test('[CALL17] also if the instance died before it could say so', async () => {
  const scene = new Scene()
  await scene.start()
  const { session } = scene
  await expect(session.call('needs', 'released')).rejects.toThrow('It is away')
  session.sql.run(`update session set generation = 2, sandbox_state = 'requested'`)
  session.restart()
  expect(await scene.states()).toEqual({ released: 'unknown' })
})
