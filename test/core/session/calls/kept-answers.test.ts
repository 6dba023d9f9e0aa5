import { expect, test } from 'vitest'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'
import { KeptAnswers } from '../../../../src/core/session/calls/kept-answers.ts'

const call = (toolCallId: string) => ({ tool: 'noop', toolCallId, args: {} })

test('[CALL4] [CALL5] [CALL6] a kept answer is for its instance, tool, id and arguments alone', () => {
  const answers = new KeptAnswers()
  answers.keep(call('a'), '{}', 'answer')
  expect(answers.find(call('a'), '{}')).toBe('answer')
  expect(answers.find(call('a'), '{"other":1}')).toBeUndefined()
  expect(answers.find(call('b'), '{}')).toBeUndefined()
  expect(answers.find({ ...call('a'), tool: 'verify' }, '{}')).toBeUndefined()
  expect(new KeptAnswers().find(call('a'), '{}')).toBeUndefined()
})

test('[CALL4] long answers are not kept, and of many the oldest go', () => {
  const answers = new KeptAnswers()
  answers.keep(call('long'), '{}', 'x'.repeat(1998))
  answers.keep(call('longer'), '{}', 'x'.repeat(1999))
  expect(answers.find(call('long'), '{}')).toHaveLength(1998)
  expect(answers.find(call('longer'), '{}')).toBeUndefined()
  for (let n = 0; n < 2000; n++) answers.keep(call(`many-${n}`), '{}', '')
  expect(answers.find(call('long'), '{}')).toBeUndefined()
  expect(answers.find(call('many-0'), '{}')).toBe('')
})

test('[SES6] what is forgotten is gone, also what comes after it, and nothing of others', () => {
  const [erased, other] = [new KeptAnswers(), new KeptAnswers()]
  for (const answers of [erased, other]) answers.keep(call('a'), '{}', 'answer')
  erased.forget()
  erased.keep(call('b'), '{}', 'late')
  expect(erased.find(call('a'), '{}')).toBeUndefined()
  expect(erased.find(call('b'), '{}')).toBeUndefined()
  expect(other.find(call('a'), '{}')).toBe('answer')
})

test('[SES6] an erased session keeps no answer in memory', async () => {
  const world = await new RunWorld().begin()
  const others = new KeptAnswers()
  const keep = (id: string) => others.keep(call(id), '{}', '')
  for (let n = 0; n < 1999; n++) keep(`of others ${n}`)
  // The last for which there is room.
  await world.call('noop', 'a')
  await world.actor.api.self.erase(testCaller)
  await world.pass(60_000)
  expect(world.erased).toBe(true)
  keep('one more')
  expect(others.find(call('of others 0'), '{}')).toBe('')
  keep('too many')
  expect(others.find(call('of others 0'), '{}')).toBeUndefined()
})
