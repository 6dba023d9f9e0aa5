import { describe, expect, test } from 'vitest'
import {
  responseAnswer,
  responseTrace,
  responseWithoutRoot,
} from '../../../src/core/evals/response/answer.ts'
import {
  type OpencodePart,
  responseOfOpencodeEvents,
  responseOfOpencodeMessages,
} from '../../../src/core/evals/response/opencode.ts'

const tool = (id: string, name: string, state: OpencodePart['state']): OpencodePart => ({
  id: `prt_${id}`,
  type: 'tool',
  tool: name,
  callID: id,
  state,
})
const text = (id: string, value: string, type = 'text'): OpencodePart => ({
  id,
  type,
  text: value,
})
const assistant = (id: string, ...parts: OpencodePart[]) => ({
  info: { id, role: 'assistant' },
  parts,
})

describe('[EVAL1] the messages of OpenCode', () => {
  const messages = [
    { info: { id: 'm0', role: 'user' }, parts: [text('p0', 'Do it')] },
    assistant(
      'm1',
      text('p1', 'I think', 'reasoning'),
      text('p2', 'Looking'),
      tool('c1', 'readFile', {
        status: 'completed',
        input: { filePath: 'a' },
        output: 'text',
        time: { start: 1000, end: 1250 },
      }),
      tool('c2', 'bash', { status: 'error', input: { command: 'x' }, error: 'exit 1' }),
      { id: 's1', type: 'step-finish', cost: 0.25, tokens: { input: 10, output: 5, reasoning: 2 } },
    ),
    assistant(
      'm2',
      tool('c3', 'grep', { status: 'running', input: { pattern: 'y' } }),
      tool('c4', 'noInput', { status: 'pending' }),
      text('p3', 'The answer'),
      text('p4', 'is 42'),
      text('p6', 'reminder', 'text'),
      {
        id: 's2',
        type: 'step-finish',
        cost: 0.5,
        tokens: { input: 1, output: 1, cache: { read: 3, write: 4 } },
      },
    ),
    assistant('m3', { ...text('p5', 'Continue'), synthetic: true }, text('p7', '')),
  ]
  const response = responseOfOpencodeMessages(messages, 77)

  test('become one assistant message with the text parts of the last answer', () => {
    expect(response.outputMessages).toHaveLength(1)
    expect(response.outputMessages[0]).toMatchObject({
      role: 'assistant',
      content: 'The answer\nis 42\nreminder',
    })
  })

  test('[EVAL2] each tool part is one call with its id, input, output or structured error', () => {
    expect(response.outputMessages[0]?.toolCalls).toEqual([
      {
        id: 'c1',
        tool: 'readFile',
        input: { filePath: 'a' },
        output: 'text',
        timestamp: '1970-01-01T00:00:01.000Z',
        durationMs: 250,
      },
      {
        id: 'c2',
        tool: 'bash',
        input: { command: 'x' },
        error: { kind: 'error', message: 'exit 1' },
      },
      {
        id: 'c3',
        tool: 'grep',
        input: { pattern: 'y' },
        error: { kind: 'unfinished', message: 'The call was still running when the turn ended' },
      },
      {
        id: 'c4',
        tool: 'noInput',
        error: { kind: 'unfinished', message: 'The call was still pending when the turn ended' },
      },
    ])
  })

  test('[EVAL2] a part that comes again replaces what was known under its id', () => {
    const twice = [
      assistant('m1', tool('c1', 'read', { status: 'running' })),
      assistant('m1', tool('c1', 'read', { status: 'completed', output: 'b' })),
    ]
    expect(responseOfOpencodeMessages(twice).outputMessages[0]?.toolCalls).toEqual([
      { id: 'c1', tool: 'read', output: 'b' },
    ])
  })

  test('[EVAL1] tokens and cost are summed over the steps', () => {
    expect(response).toMatchObject({
      tokenUsage: { input: 11, output: 8, cached: 7 },
      costUsd: 0.75,
      durationMs: 77,
    })
    expect(responseOfOpencodeMessages([])).toEqual({
      outputMessages: [{ role: 'assistant', content: '', toolCalls: [] }],
    })
  })

  test('[EVAL3] errored calls are counted, and names of tools keep their case in every field', () => {
    expect(responseTrace(response)).toEqual({
      event_count: 4,
      tool_names: ['bash', 'grep', 'noInput', 'readFile'],
      tool_calls_by_name: { readFile: 1, bash: 1, grep: 1, noInput: 1 },
      error_count: 3,
      token_usage: { input: 11, output: 8, cached: 7 },
      cost_usd: 0.75,
      duration_ms: 77,
    })
  })
})

describe('[EVAL1] [EVAL2] the events of a session', () => {
  const part = (sessionId: string, messageId: string, partId: string) => ({
    turnId: 'trn',
    sessionId,
    messageId,
    partId,
  })
  const call = (sessionId: string, callId: string, name: string) => ({
    ...part(sessionId, 'm1', `prt_${callId}`),
    tool: name,
    callId,
    input: { a: callId },
  })

  test('give the same as its messages; sub-agents are inside of their task', () => {
    const events = [
      { kind: 'turn.started', data: {} },
      {
        kind: 'message.text',
        data: { ...part('own', 'm1', 'p1'), text: 'thought', reasoning: true },
      },
      { kind: 'tool.started', data: call('own', 'c1', 'task') },
      { kind: 'tool.started', data: call('sub', 'c2', 'bash') },
      {
        kind: 'tool.failed',
        data: { ...call('sub', 'c2', 'bash'), error: 'inner', durationMs: 1 },
      },
      {
        kind: 'message.text',
        data: { ...part('sub', 'm9', 'p9'), text: 'inner', reasoning: false },
      },
      {
        kind: 'tool.completed',
        data: { ...call('own', 'c1', 'task'), output: 'out', durationMs: 5 },
      },
      { kind: 'tool.failed', data: { ...call('own', 'c3', 'edit'), error: 'no', durationMs: 2 } },
      { kind: 'tool.started', data: call('own', 'c4', 'read') },
      {
        kind: 'message.text',
        data: { ...part('own', 'm2', 'p2'), text: 'Done', reasoning: false },
      },
      {
        kind: 'step.finished',
        data: {
          ...part('own', 'm2', 's1'),
          reason: 'stop',
          tokens: { input: 1, output: 2, reasoning: 3, cacheRead: 4, cacheWrite: 5 },
          cost: 0.1,
        },
      },
    ]
    expect(responseOfOpencodeEvents(events, 9)).toEqual({
      outputMessages: [
        {
          role: 'assistant',
          content: 'Done',
          toolCalls: [
            { id: 'c1', tool: 'task', input: { a: 'c1' }, output: 'out', durationMs: 5 },
            {
              id: 'c3',
              tool: 'edit',
              input: { a: 'c3' },
              error: { kind: 'error', message: 'no' },
              durationMs: 2,
            },
            {
              id: 'c4',
              tool: 'read',
              input: { a: 'c4' },
              error: {
                kind: 'unfinished',
                message: 'The call was still running when the turn ended',
              },
            },
          ],
        },
      ],
      tokenUsage: { input: 1, output: 5, cached: 9 },
      costUsd: 0.1,
      durationMs: 9,
    })
  })
})

describe('[EVAL3] what is graded', () => {
  const said = (...contents: unknown[]) => ({
    outputMessages: contents.map((content) => ({ role: 'assistant', content })),
  })
  test.each([
    ['the last message', said('a', 'b'), 'b'],
    ['the last one that has content', said('a', '', undefined, null), 'a'],
    ['an object as JSON', said({ b: 1, A: 2 }), '{"b":1,"A":2}'],
    ['nothing', said(), ''],
    [
      'no other role',
      { outputMessages: [...said('a').outputMessages, { role: 'tool', content: 'b' }] },
      'a',
    ],
  ])('is %s', (_, response, answer) => expect(responseAnswer(response)).toBe(answer))
})

test('[EVAL4] the root of the workspace is written as $WORKSPACE, and nothing that only begins like it', () => {
  const given = {
    answer: 'in /w/a1/src, /w/a1, /w/a10 and "/w/a1"',
    calls: [{ input: { path: '/w/a1', n: 1, none: null } }],
  }
  expect(responseWithoutRoot(given, '/w/a1/')).toEqual({
    answer: 'in $WORKSPACE/src, $WORKSPACE, /w/a10 and "$WORKSPACE"',
    calls: [{ input: { path: '$WORKSPACE', n: 1, none: null } }],
  })
  expect(responseWithoutRoot('/a', '/')).toBe('/a')
})
