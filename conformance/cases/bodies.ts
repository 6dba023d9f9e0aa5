import { maxArgsBytes } from '../../src/contract/tool.ts'
import { answered, holds, refused, same } from '../check.ts'
import { type Case, outside } from './case.ts'

const deep = `${'['.repeat(100)}${']'.repeat(100)}`

const withId = (id: unknown) => JSON.stringify({ tool_call_id: id, args: outside })

/** Bodies that are no callback, whatever the tool. */
const badBodies: Record<string, string | Uint8Array> = {
  'no JSON': '{',
  empty: '',
  'an array': '[]',
  'bytes that are not UTF-8': new Uint8Array([0x22, 0xff, 0x22]),
  'no tool_call_id': JSON.stringify({ args: outside }),
  'an empty tool_call_id': withId(''),
  'a tool_call_id that is a number': withId(1),
  'a tool_call_id that is too long': withId('x'.repeat(201)),
  'a tool_call_id with a line break': withId('a\nb'),
  'args that are a list': '{"tool_call_id":"a","args":[]}',
  'an unknown field': JSON.stringify({ tool_call_id: 'a', args: outside, more: 1 }),
  NUL: '{"tool_call_id":"a","args":{"folder":"\\u0000"}}',
  'a lone surrogate': '{"tool_call_id":"a","args":{"folder":"\\ud800"}}',
  'deep JSON': `{"tool_call_id":"a","args":{"folder":${deep}}}`,
}

/** Arguments of exactly so many bytes. */
const sized = (bytes: number) => ({ folder: '/'.repeat(bytes - '{"folder":""}'.length) })

export const bodyCases: readonly Case[] = [
  {
    name: 'body-bad',
    rule: 'API3',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      for (const [name, body] of Object.entries(badBodies)) {
        const answer = await kit.startCallback(session, { token, tool: 'verify', body }).answer
        refused(name, answer, 400, 'invalid_request')
      }
      const body = JSON.stringify({ tool_call_id: kit.id('text'), args: outside })
      const text = { token, tool: 'verify', body, contentType: 'text/plain' }
      refused('text/plain', await kit.startCallback(session, text).answer, 400, 'invalid_request')
      same('calls left behind', await kit.calls(session), [])
      return `400 for ${Object.keys(badBodies).length + 1} bodies`
    },
  },
  {
    name: 'body-limits',
    rule: 'CALL12',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      const send = (bytes: number) =>
        kit.call(session, token, 'verify', kit.id('size'), sized(bytes))
      answered('arguments at the limit', await send(maxArgsBytes), false)
      refused('arguments above it', await send(maxArgsBytes + 1), 413, 'too_large')
      refused('a body above 1 MiB', await send(1024 * 1024), 413, 'too_large')
      same('calls left behind', (await kit.calls(session)).length, 1)
      return `413 above ${maxArgsBytes} bytes`
    },
  },
  {
    name: 'unknown-tool',
    rule: 'CALL1',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      // The second runs in the sandbox alone; the last is on every object.
      for (const tool of [
        'nothing',
        'request_env_variables',
        'Verify',
        'verify%20',
        'constructor',
      ]) {
        const answer = await kit.call(session, token, tool, kit.id('tool'), outside)
        refused(tool, answer, 404, 'unknown_tool')
      }
      same('calls left behind', await kit.calls(session), [])
      return '404 unknown_tool'
    },
  },
  {
    name: 'arguments-invalid',
    rule: 'CALL10',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      const answer = await kit.call(session, token, 'verify', kit.id('args'), { surprise: 1 })
      const { result } = answered('answer', answer, false)
      holds('result', result, result.startsWith('Invalid arguments: '), 'Invalid arguments: …')
      same('state', (await kit.calls(session))[0]?.state, 'settled')
      return result
    },
  },
]
