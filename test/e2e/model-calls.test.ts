import { describe, expect, test } from 'vitest'
import { mintToken } from '../support/agent.ts'
import { longTest } from '../support/long.ts'
import { request } from '../support/stack.ts'
import { bash, useBox, useRealStack, write } from './support.ts'

const stack = useRealStack('workerd')
const only = useBox(stack, () => ({ title: 'model calls' }))

test('[LLM4] [LLM7] what OpenCode reports of a turn is what the vendor said', async () => {
  const box = only()
  const turn = await box.run([
    { text: 'I write.', reasoning: 'What to write?', ...write('a.txt', 'a\n') },
    bash('cat a.txt'),
    { text: 'Written.' },
  ])
  expect(turn.state).toBe('completed')
  const { usage } = await box.view()
  const { used } = (await box.get('/budget')).json as { used: { tokens: number } }
  expect(usage.requests).toBe(3)
  expect(used.tokens).toBe(usage.inputTokens + usage.outputTokens)
  expect(turn.tokens.input + turn.tokens.output).toBe(used.tokens)
  expect(await box.eventsOf('budget.mismatch')).toEqual([])
  expect(await box.eventsOf('budget.estimated')).toEqual([])
})

describe('[LLM3] [LLM12] a turn whose budget is spent', () => {
  const limit = (limits: object) =>
    request('PUT', `${stack().url}/v1/sessions/${only().id}/budget`, stack().adminKey, limits)
  /** The vendor fails once; by the time OpenCode asks again there is no budget. */
  const spend = async () => {
    const steps = [{ stallMs: 2000, httpError: { status: 500, times: 1 }, text: 'Said.' }]
    const turn = await only().prompt(steps)
    expect((await limit({ tokens: 1 })).status).toBe(200)
    const token = await mintToken(stack().env, {
      sessionId: only().id,
      organisationId: stack().organisationId,
    })
    const url = `${stack().url}/llm/litellm/chat/completions`
    const refused = await request('POST', url, token, { model: 'scripted', messages: [] })
    expect([refused.status, refused.json.error.code]).toEqual([409, 'budget_spent'])
    return turn
  }

  test('goes on if the budget is raised while OpenCode still tries', async () => {
    const turn = await spend()
    expect((await limit({})).status).toBe(200)
    expect(await only().ended(turn)).toMatchObject({ state: 'completed', text: 'Said.' })
  })

  // OpenCode tries for more than a minute.
  longTest('fails with the reason if it is not', async () => {
    const turn = await spend()
    const ended = await only().ended(turn, 180_000)
    expect(ended.state).toBe('failed')
    expect(ended.reason).toContain("The session's budget of tokens is spent")
  })
})
