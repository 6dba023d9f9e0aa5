import { beforeEach, describe, expect, test } from 'vitest'
import { type Budget, budgetCostMicros } from '../../../../src/contract/budget.ts'
import { defaultModelId, findModel } from '../../../../src/contract/models.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import type { CallEnd } from '../../../../src/core/session/budget/model-calls.ts'
import type { ModelCall } from '../../../../src/core/session/models/models.ts'
import { TestDeployment } from '../../../support/organisation.ts'
import { other, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const model = findModel(defaultModelId)!
const sandbox = (generation = 1) => ({ organisationId: testCaller.organisationId, generation })
let calls = 0
const callOf = (change: Partial<ModelCall> = {}, input = 1000, output: number | null = 500) => ({
  id: `llm_${++calls}`,
  provider: 'anthropic' as const,
  model: model.apiId,
  needs: { inputTokens: input, hasFiles: false, outputTokens: output },
  bodyBytes: input,
  hasTools: true,
  ...change,
})
const none = { input: 0, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
const said = (input: number, output: number, more = {}): CallEnd => ({
  ...{ kind: 'said', answerBytes: 100_000 },
  tokens: { ...none, input, output, ...more },
})
const broken = (): CallEnd => ({
  ...{ kind: 'broken', tokens: null, reason: 'The answer broke off' },
})
/** What 1000 bytes and 500 tokens hold. */
const held = 1000 + 1024 + 500

let world: RunWorld
const begin = async (budget: Budget = {}, more: Record<string, unknown> = {}) => {
  world = await new RunWorld().begin({ budget, ...more })
}
const admit = (call: ModelCall, generation = world.generation) =>
  world.actor.api.models.admit(sandbox(generation), call)
/** Its id, once it passes. */
const passed = async (call: ModelCall = callOf()) => {
  expect(await admit(call)).toEqual({ admitted: true })
  return call.id
}
const settle = (id: string, end: CallEnd) => world.actor.api.models.settle(sandbox(), id, end)
const used = async () => (await world.actor.api.budget.view(testCaller)).used
const refused = (code: string, message = '') => ({
  code,
  message: expect.stringContaining(message),
})

describe('[LLM1] the model', () => {
  test.each([
    ['another model', { model: 'claude-opus-4-6' }],
    ['the same name at another provider', { provider: 'litellm' as const }],
    ['our own spelling of it', { model: defaultModelId }],
    ['no model', { model: '' }],
  ])('%s is refused, and the right one is named', async (_what, change) => {
    await begin()
    await world.prompt()
    await expect(admit(callOf(change))).rejects.toMatchObject(
      refused('model_refused', `this session uses "${model.apiId}" of "anthropic" and no other`),
    )
    expect(world.rowsOf('model_calls')).toEqual([])
    await passed()
  })
})

describe('[LLM2] the turn', () => {
  const helper = (change: Partial<ModelCall> = {}) => callOf({ hasTools: false, ...change })

  test('a call with tools needs a running turn', async () => {
    await begin()
    const none = refused('model_refused', 'no turn is running')
    await expect(admit(callOf())).rejects.toMatchObject(none)
    const turn = await world.prompt()
    await passed()
    await world.endTurn(turn)
    await expect(admit(callOf())).rejects.toMatchObject(none)
  })

  test('helper calls are few and small, and there are new ones after the next turn', async () => {
    await begin({}, { idleTimeoutSeconds: null })
    for (let n = 0; n < 4; n++) await settle(await passed(helper()), { kind: 'free' })
    await world.pass(3_600_000)
    await expect(admit(helper())).rejects.toMatchObject(refused('model_refused', '4 calls'))
    await world.endTurn(await world.prompt())
    await expect(admit(helper({ bodyBytes: 256 * 1024 + 1 }))).rejects.toMatchObject(
      refused('model_refused', 'at most 262144 bytes'),
    )
    for (let n = 0; n < 4; n++) await passed(helper({ bodyBytes: 256 * 1024 }))
    await expect(admit(helper())).rejects.toMatchObject(refused('model_refused'))
  })

  test('a turn that is being aborted makes no more calls', async () => {
    await begin()
    const turn = await world.prompt()
    await world.takePrompt(turn)
    await world.actor.api.self.abort(testCaller, '')
    await expect(admit(callOf())).rejects.toMatchObject(refused('model_refused', 'aborted'))
  })

  test('nor does a closed session, a replaced sandbox, or a sandbox of another organisation', async () => {
    await begin()
    await world.prompt()
    await expect(admit(callOf(), 2)).rejects.toMatchObject(refused('old_generation'))
    const strange = { organisationId: `org_${'9'.repeat(20)}`, generation: 1 }
    await expect(world.actor.api.models.admit(strange, callOf())).rejects.toMatchObject(
      refused('not_found'),
    )
    await world.actor.api.self.close(testCaller, 'x')
    await expect(admit(callOf())).rejects.toMatchObject(refused('session_closed'))
  })

  test.each([
    ['the session is closed', 'session_closed', () => world.actor.api.self.close(testCaller, 'x')],
    [
      'the sandbox is replaced',
      'old_generation',
      () => world.actor.api.sandbox.replace(testCaller, 'x', null),
    ],
    [
      'the turn ends',
      'model_refused',
      async () => {
        const { turn } = await world.actor.api.self.view(testCaller)
        await world.endTurn({ id: turn ?? '' })
      },
    ],
  ])('if %s while the organisation is asked, the call does not pass', async (_what, code, end) => {
    await begin()
    await world.prompt()
    let answer = () => {}
    const asked = new Promise<null>((resolve) => (answer = () => resolve(null)))
    world.organisation.api.firewall.killReason = () => asked
    const admission = admit(callOf()).catch((error: { code: string }) => error.code)
    await end()
    answer()
    expect(await admission).toBe(code)
    expect(world.rowsOf('model_calls')).toEqual([])
  })

  test('nor does a warm session', async () => {
    world = new RunWorld()
    await world.actor.api.self.create({
      ...{ sessionId: world.sessionId, ...testCaller, warm: true },
      input: SessionCreate.parse({ sandbox: 'local' }),
    })
    await world.pass(0)
    await world.meet()
    await expect(admit(callOf({ hasTools: false }))).rejects.toMatchObject(refused('wrong_state'))
  })
})

describe('[LLM3] the estimate', () => {
  const row = () =>
    world.rowsOf<Record<string, number>>('model_calls order by begun_at desc, id desc limit 1')[0]

  test('is bytes, words around them, and output; a file may be as large as the context', async () => {
    await begin()
    await world.prompt()
    await passed(callOf({ id: 'a' }))
    const price = model.price!
    expect(row()).toMatchObject({
      input_tokens: 2024,
      output_tokens: 500,
      money_micros: 2024 * (price.cacheWrite ?? 0) + 500 * price.output,
    })
    await passed(callOf({ id: 'b' }, 1000, null))
    expect(row()).toMatchObject({ output_tokens: model.output })
    const needs = { inputTokens: 1000, hasFiles: true, outputTokens: 1 }
    await passed(callOf({ id: 'c', needs }))
    expect(row()).toMatchObject({ input_tokens: model.context + 1024 })
    await passed(callOf({ id: 'd', needs: null }))
    expect(row()).toMatchObject({ input_tokens: 0, output_tokens: 0, money_micros: 0 })
  })

  test('is held until the call is counted: others wait, and then pass or find it spent', async () => {
    await begin({ tokens: 3000 })
    await world.prompt()
    const [first, second] = [await passed(), await passed()]
    expect(await admit(callOf())).toMatchObject({ admitted: false, waitMs: 10_000 })
    await settle(first, said(100, 50))
    expect(await admit(callOf())).toEqual({ admitted: true })
    await settle(second, said(2000, 850))
    await expect(admit(callOf())).rejects.toMatchObject(
      refused('budget_spent', "The session's budget of tokens is spent. Raise it"),
    )
    expect(await world.events('budget.spent')).toHaveLength(1)
    await world.actor.api.budget.set(testCaller, { tokens: 9000 })
    await passed()
  })

  test('money is held likewise', async () => {
    const one = budgetCostMicros(model.price!, { ...none, output: 500 })
    await begin({ moneyUsd: (one * 2) / 1_000_000 })
    await world.prompt()
    await passed()
    expect(await admit(callOf())).toMatchObject({ admitted: false })
  })

  test('time that is spent stops calls; tool calls that are spent do not', async () => {
    await begin({ wallSeconds: 10, toolCalls: 1 })
    await world.prompt()
    await world.ask('read')
    expect(await world.events('budget.spent')).toHaveLength(1)
    await passed()
    await world.actor.api.budget.set(testCaller, { wallSeconds: 10 })
    await world.pass(10_000)
    await expect(admit(callOf())).rejects.toMatchObject(refused('budget_spent', 'wallSeconds'))
  })

  test('calls that come together do not share what is left', async () => {
    await begin({ tokens: held })
    await world.prompt()
    const answers = await Promise.all(Array.from({ length: 10 }, () => admit(callOf())))
    expect(answers.filter(({ admitted }) => admitted)).toHaveLength(1)
  })
})

describe('[LLM4] [LLM5] the count', () => {
  const counted = async (end: CallEnd) => {
    await begin()
    await world.prompt()
    await settle(await passed(), end)
    expect(world.deadlines()).not.toHaveProperty('model.call')
    const [event] = await world.events('budget.estimated')
    return { tokens: (await used()).tokens, reason: event?.['reason'] ?? null }
  }

  test.each([
    ['what the vendor says', said(300, 40), 340],
    ['caches once, too', said(10, 40, { cacheRead: 700, cacheWrite: 5 }), 755],
    ['a refusal costs nothing', { kind: 'free' } as const, 0],
    ['twice the estimate', said(2024 * 2, 500 * 2), 5048],
    ['a short answer without words', { ...said(300, 0), answerBytes: 100 } as CallEnd, 300],
  ])('%s', async (_what, end, tokens) => {
    expect(await counted(end)).toEqual({ tokens, reason: null })
  })

  test.each([
    ['no input', said(0, 40)],
    ['no output in a long answer', said(300, 0)],
    ['far more than can be', said(1e12, 40)],
    ['more output than can be', said(300, 2001)],
    ['what is no number', said(Number.NaN, 40)],
    ['a fraction', said(0.5, 40)],
    ['infinity', said(300, Infinity)],
  ])('[LLM5] a vendor that says %s is not believed', async (_what, end) => {
    const reason = 'The vendor says what cannot be true'
    expect(await counted(end)).toEqual({ tokens: held, reason })
  })

  test('[LLM5] of an answer that breaks off the estimate counts, and the input that was said', async () => {
    const reason = 'The answer broke off'
    expect(await counted(broken())).toEqual({ tokens: held, reason })
    const tokens = { ...none, input: 200, cacheRead: 30, output: 1 }
    expect(await counted({ kind: 'broken', tokens, reason })).toEqual({ tokens: 730, reason })
    const absurd = { ...tokens, input: 1e9 }
    expect(await counted({ kind: 'broken', tokens: absurd, reason })).toMatchObject({
      tokens: held,
    })
  })

  test('[LLM4] money is what was used times the price, and the session shows its calls', async () => {
    await begin()
    await world.prompt()
    const tokens = { ...none, input: 100, cacheRead: 900, cacheWrite: 20, output: 60 }
    await settle(await passed(), { kind: 'said', tokens, answerBytes: 1 })
    expect((await used()).moneyUsd).toBe(budgetCostMicros(model.price!, tokens) / 1_000_000)
    const { usage } = await world.actor.api.self.view(testCaller)
    expect(usage).toEqual({ requests: 1, inputTokens: 1020, outputTokens: 60 })
  })
})

describe('[LLM6] once', () => {
  test('an end that is told again changes nothing, nor does that of a call that nobody knows', async () => {
    await begin()
    await world.prompt()
    const id = await passed()
    for (const end of [said(300, 40), said(400, 50), broken()]) await settle(id, end)
    await settle('llm_other', said(300, 40))
    world.restart()
    await settle(id, said(300, 40))
    expect((await used()).tokens).toBe(340)
  })

  test('a call outlives its instance: held, counted by its end, else after six minutes', async () => {
    await begin({ tokens: held })
    const turn = await world.prompt()
    await passed(callOf({ id: 'dead' }))
    world.restart()
    await world.meet()
    expect(await admit(callOf())).toMatchObject({ admitted: false })
    await world.pass(6 * 60_000 - 1)
    expect((await used()).tokens).toBe(0)
    await world.pass(1)
    expect((await used()).tokens).toBe(held)
    expect(await world.events('budget.estimated')).toEqual([
      {
        ...{ callId: 'dead', turnId: turn.id, model: model.id, tokens: held },
        reason: 'Nothing more was heard of the answer',
      },
    ])
    await settle('dead', said(1, 1))
    expect((await used()).tokens).toBe(held)
    expect(world.deadlines()).not.toHaveProperty('model.call')
  })

  test('while its answer comes it is not given up', async () => {
    await begin()
    await world.prompt()
    const id = await passed()
    for (let minutes = 0; minutes < 20; minutes += 5) {
      await world.pass(5 * 60_000)
      await world.actor.api.models.extend(sandbox(), id)
    }
    await settle(id, said(300, 40))
    expect((await used()).tokens).toBe(340)
    await world.actor.api.models.extend(sandbox(), id)
    expect(world.deadlines()).not.toHaveProperty('model.call')
  })

  test('a machine that was suspended does not give it up', async () => {
    await begin()
    await world.prompt()
    const id = await passed()
    await world.jump(3 * 3_600_000)
    expect(await world.events('budget.estimated')).toEqual([])
    await settle(id, said(300, 40))
    expect((await used()).tokens).toBe(340)
    await begin()
    await world.prompt()
    await passed()
    await world.jump(3 * 3_600_000)
    await world.pass(6 * 60_000)
    expect(await world.events('budget.estimated')).toHaveLength(1)
  })

  test('each open call has its own six minutes', async () => {
    await begin()
    await world.prompt()
    await passed(callOf({ id: 'one' }))
    await world.pass(60_000)
    await passed(callOf({ id: 'two' }))
    await world.pass(5 * 60_000)
    expect((await used()).tokens).toBe(held)
    await world.pass(60_000)
    expect((await used()).tokens).toBe(2 * held)
  })

  test('the end of a call of a replaced sandbox counts, in the turn that it was made in', async () => {
    await begin()
    await world.prompt()
    const id = await passed()
    await world.actor.api.sandbox.replace(testCaller, 'x', null)
    await expect(admit(callOf(), 1)).rejects.toMatchObject(refused('old_generation'))
    await settle(id, said(300, 40))
    expect((await used()).tokens).toBe(340)
  })

  test('another organisation cannot end or prolong a call', async () => {
    await begin()
    await world.prompt()
    const id = await passed()
    const strange = { organisationId: `org_${'9'.repeat(20)}` }
    const { models } = world.actor.api
    await expect(models.settle(strange, id, { kind: 'free' })).rejects.toMatchObject(
      refused('not_found'),
    )
    await expect(models.extend(strange, id)).rejects.toMatchObject(refused('not_found'))
    expect((await admit(callOf())).admitted).toBe(true)
  })
})

describe('[LLM6] [LLM3] with the budget of the organisation', () => {
  let deployment: TestDeployment
  const limit = (limits: Budget) => deployment.org.api.budgets.set(null, limits, 'key')
  const books = () => deployment.org.api.budgets.view(null)
  beforeEach(async () => {
    deployment = new TestDeployment()
    world = new RunWorld()
    const { budgets } = deployment.org.api
    world.organisation.shared = {
      take: (claim) => budgets.take(claim),
      giveBack: (...given) => budgets.giveBack(...given),
    }
  })
  const beginWith = async (limits: Budget) => {
    await limit(limits)
    await world.begin()
    await world.prompt()
  }

  test('[BUD8] a slice is large enough for all open calls, if nothing is limited', async () => {
    await beginWith({})
    const big = (id: string) => callOf({ id }, 150_000)
    const answers = await Promise.all(['a', 'b', 'c'].map((id) => admit(big(id))))
    expect(answers.every(({ admitted }) => admitted)).toBe(true)
    expect((await books()).reserved.tokens).toBeGreaterThanOrEqual(300_000)
  })

  test('what is left is passed by one request at most, and then it is spent', async () => {
    await beginWith({ tokens: 4000 })
    const first = await passed()
    const second = await passed()
    expect(await admit(callOf())).toMatchObject({ admitted: false })
    await settle(first, said(2000, 500))
    await settle(second, said(2000, 500))
    await expect(admit(callOf())).rejects.toMatchObject(
      refused('budget_spent', "The organisation's budget of tokens is spent"),
    )
    await limit({ tokens: 9000 })
    await passed()
  })

  test('a closed session waits some seconds for its last ends, and then returns its slice', async () => {
    await beginWith({ tokens: 1_000_000 })
    const [told, untold] = [await passed(), await passed()]
    await world.actor.api.self.close(testCaller, 'x')
    await world.pass(5000)
    await settle(told, said(300, 40))
    expect((await books()).reserved.tokens).toBeGreaterThan(0)
    await world.pass(10_000)
    await settle(untold, said(1, 1))
    await world.pass(10_000)
    expect(await books()).toMatchObject({
      used: { tokens: 340 + held },
      reserved: { tokens: 0 },
    })
  })

  test('a session that is deleted is counted at once', async () => {
    await beginWith({})
    await passed()
    await world.actor.api.self.erase(testCaller)
    await world.pass(60_000)
    expect(world.erased).toBe(true)
    expect(await books()).toMatchObject({ used: { tokens: held }, reserved: { tokens: 0 } })
  })

  test('nothing passes while the organisation cannot be asked for its budget', async () => {
    await beginWith({})
    await passed(callOf({}, 100_000))
    world.organisation.budgetAway = true
    await expect(admit(callOf())).rejects.toMatchObject(refused('budget_spent', 'is away'))
    world.organisation.budgetAway = false
    await passed()
  })
})

describe('[LLM7] what the sandbox reports', () => {
  const ended = async (reported: number, vendor: number, state = 'completed') => {
    await begin()
    const turn = await world.prompt()
    const id = await passed(callOf({}, 50_000, 50_000))
    await world.step(turn, { input: reported })
    expect((await used()).tokens).toBe(0)
    await world.endTurn(turn, state)
    expect(await world.events('budget.mismatch')).toEqual([])
    await settle(id, said(vendor - 1, 1))
    expect((await used()).tokens).toBe(vendor)
    return await world.events('budget.mismatch')
  }

  test.each([
    ['the same', 20_000, 20_000],
    ['a little less', 19_001, 20_000],
    ['10 % more', 22_000, 20_000],
  ])('is not counted; %s is no mismatch', async (_what, reported, vendor) => {
    expect(await ended(reported, vendor)).toEqual([])
  })

  test.each([
    ['less', 17_900, 20_000],
    ['nothing', 0, 20_000],
    ['more', 22_300, 20_000],
  ])('far %s is told once, and the vendor’s word stands', async (_what, reported, vendor) => {
    const mismatch = [{ turnId: expect.any(String), counted: vendor, reported }]
    expect(await ended(reported, vendor)).toEqual(mismatch)
  })

  test('is compared at the end of the turn if all its calls are counted by then', async () => {
    await begin()
    const turn = await world.prompt()
    for (const _ of [1, 2]) await settle(await passed(callOf({}, 9000)), said(5000, 400))
    await world.step(turn, { input: 5000, output: 400 })
    expect(await world.events('budget.mismatch')).toEqual([])
    await world.endTurn(turn)
    expect(await world.events('budget.mismatch')).toMatchObject([
      { turnId: turn.id, counted: 10_800, reported: 5400 },
    ])
    await world.endTurn(turn)
    expect(await world.events('budget.mismatch')).toHaveLength(1)
  })

  test('is not compared if the turn did not complete, nor with calls that broke off', async () => {
    expect(await ended(0, 20_000, 'failed')).toEqual([])
    await begin()
    const turn = await world.prompt()
    await settle(await passed(), broken())
    await settle(await passed(), said(300, 40))
    await world.step(turn, { input: 300, output: 40 })
    await world.endTurn(turn)
    expect(await world.events('budget.mismatch')).toEqual([])
  })

  test('[BUD6] counts for a turn none of whose calls passed here', async () => {
    await begin()
    const first = await world.prompt()
    await world.step(first, { input: 70 })
    await world.endTurn(first)
    const second = await world.prompt()
    const id = await passed()
    await world.step(second, { input: 900 })
    await settle(id, said(30, 10))
    await world.endTurn(second)
    expect((await used()).tokens).toBe(70 + 40)
    expect((await world.actor.api.turns.get(testCaller, second.id)).tokens.input).toBe(900)
  })
})

describe('[LLM8] rate', () => {
  test('so many begin in a minute, also over restarts', async () => {
    await begin()
    await world.prompt()
    world.modelLimits.modelCallsPerMinute = 3
    await settle(await passed(), { kind: 'free' })
    await world.pass(20_000)
    for (const _ of [1, 2]) await settle(await passed(), { kind: 'free' })
    expect(await admit(callOf())).toMatchObject({ admitted: false, waitMs: 40_000 })
    world.restart()
    await world.meet()
    expect(await admit(callOf())).toMatchObject({ admitted: false })
    await world.pass(40_000)
    await settle(await passed(), { kind: 'free' })
    expect(await admit(callOf())).toMatchObject({ admitted: false, waitMs: 20_000 })
  })

  test('so many are open at a time', async () => {
    await begin()
    await world.prompt()
    world.modelLimits.concurrentModelCalls = 2
    const [first] = [await passed(), await passed()]
    expect(await admit(callOf())).toMatchObject({
      ...{ admitted: false, waitMs: 10_000 },
      reason: '2 model calls of this session are open',
    })
    await settle(first, { kind: 'free' })
    await passed()
  })

  test('a list of models counts, but needs no turn and uses up no helper call', async () => {
    await begin()
    world.modelLimits.modelCallsPerMinute = 6
    const list = () => passed(callOf({ model: null, needs: null, hasTools: false }))
    for (let n = 0; n < 5; n++) await settle(await list(), { kind: 'free' })
    await passed(callOf({ hasTools: false }))
    expect(await admit(callOf({ model: null, needs: null }))).toMatchObject({ admitted: false })
  })

  test('those that come together are not more', async () => {
    await begin()
    await world.prompt()
    world.modelLimits.concurrentModelCalls = 2
    const answers = await Promise.all(Array.from({ length: 10 }, () => admit(callOf())))
    expect(answers.filter(({ admitted }) => admitted)).toHaveLength(2)
  })

  test('settled calls are not kept for long', async () => {
    await begin()
    await world.prompt()
    for (let n = 0; n < 20; n++) {
      await settle(await passed(), said(300, 40))
      await world.pass(60_000)
    }
    expect(world.rowsOf('model_calls').length).toBeLessThanOrEqual(4)
  })
})

describe('[LLM9] the kill switch', () => {
  test('refuses at once, and lets pass once it is lifted', async () => {
    await begin()
    await world.prompt()
    world.organisation.killReason = 'The kill switch of the organisation is on: runaway'
    await expect(admit(callOf())).rejects.toMatchObject(
      refused('model_refused', 'The kill switch of the organisation is on: runaway'),
    )
    world.organisation.killReason = null
    await passed()
  })

  test('if the organisation cannot be asked, nothing passes', async () => {
    await begin()
    await world.prompt()
    world.organisation.api.firewall.killReason = async () => {
      throw new Error('it is away')
    }
    await expect(admit(callOf())).rejects.toMatchObject(refused('model_unavailable', 'is away'))
    expect(world.rowsOf('model_calls')).toEqual([])
  })

  test('the organisation knows its own switch and that of the deployment', async () => {
    const { org } = new TestDeployment()
    const { firewall, deployment } = org.api
    expect(await firewall.killReason()).toBeNull()
    await firewall.setKillSwitch({ on: true, reason: 'x' }, other.keyId)
    expect(await firewall.killReason()).toBe('The kill switch of the organisation is on: x')
    await firewall.setKillSwitch({ on: false, reason: '' }, other.keyId)
    await deployment.hear({ version: 1, on: true, reason: 'y' })
    expect(await firewall.killReason()).toBe('The kill switch of the deployment is on: y')
  })
})
