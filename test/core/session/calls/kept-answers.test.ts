import { expect, test } from 'vitest'
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
