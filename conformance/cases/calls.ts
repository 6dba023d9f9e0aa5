import type { Artifact } from '../../src/contract/artifact.ts'
import type { Session } from '../../src/contract/session.ts'
import { answered, holds, refused, same } from '../check.ts'
import type { Kit } from '../kit.ts'
import { newFile } from '../sandbox.ts'
import type { Case } from './case.ts'

export async function withSandbox(kit: Kit) {
  const session = await kit.session()
  const token = await kit.token(session)
  return { session, token, sandbox: await kit.sandbox(session, token) }
}

export const command = { name: 'web', command: 'npm start', cwd: 'app', workspacePath: '.' }

export const completionOf = (session: Session, completionId: string, summary = 'done') => ({
  run_id: session.automationRun?.id,
  completion_id: completionId,
  outcome: 'succeeded',
  summary,
})

export const callCases: readonly Case[] = [
  {
    name: 'first-call',
    rule: 'CALL14',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      const answer = await kit.call(session, token, 'verify', kit.id('first'))
      const { data, result, ...rest } = answered('answer', answer, true)
      same('fields beyond result and data', rest, { success: true })
      same('result', result, JSON.stringify({ key: data?.['prefix'] }))
      same('uploadedCount', data?.['uploadedCount'], 1)
      same('runs', sandbox.collects.size, 1)
      const [call] = await kit.calls(session)
      same('state and attempts', [call?.state, call?.attempts], ['settled', 1])
      const path = `/v1/sessions/${session.id}/artifacts`
      const { items } = await kit.api<{ items: Artifact[] }>('GET', path)
      same(
        'artifacts',
        items.map((item) => item.path),
        ['evidence.bin'],
      )
      return `200 ${result}`
    },
  },
  {
    name: 'verify-empty',
    rule: 'CALL14',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      sandbox.collect = async () => ({ ok: true, data: { files: [] } })
      const answer = await kit.call(session, token, 'verify', kit.id('empty'))
      const { data, result } = answered('answer', answer, true)
      same('uploadedCount', data?.['uploadedCount'], 0)
      return result
    },
  },
  {
    name: 'verify-missing-file',
    rule: 'CALL14',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      sandbox.collect = async () => ({ ok: true, data: { files: [newFile().named] } })
      const answer = await kit.call(session, token, 'verify', kit.id('missing'))
      return answered('a file that was never uploaded', answer, false).result
    },
  },
  {
    name: 'own-tools-of-a-plain-session',
    rule: 'TOOL16',
    async run(kit) {
      const { session, token } = await withSandbox(kit)
      const args = { query: 'anything' }
      const answer = await kit.call(session, token, 'memory_search', kit.id('own'), args)
      return answered('a tool that the session was not given', answer, false).result
    },
  },
  {
    name: 'same-id-two-tools',
    rule: 'CALL5',
    async run(kit) {
      const session = await kit.configured('setup')
      const token = await kit.token(session)
      await kit.sandbox(session, token)
      const id = kit.id('tools')
      answered('verify', await kit.call(session, token, 'verify', id), true)
      const args = { commands: [command] }
      const answer = await kit.call(session, token, 'save_service_commands', id, args)
      const { result } = answered('save_service_commands', answer, true)
      holds('result', result, result.includes('service commands'), 'the answer of its own tool')
      same('calls', (await kit.calls(session)).length, 2)
      return 'two calls'
    },
  },
  {
    name: 'same-id-two-sessions',
    rule: 'CALL5',
    async run(kit) {
      const id = kit.id('sessions')
      for (const { session, token } of [await withSandbox(kit), await withSandbox(kit)]) {
        const { result } = answered('answer', await kit.call(session, token, 'verify', id), true)
        holds('result', result, result.includes(session.id), `a key of "${session.id}"`)
      }
      return 'two calls'
    },
  },
  {
    name: 'conflict',
    rule: 'CALL6',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      const id = kit.id('conflict')
      answered('first', await kit.call(session, token, 'verify', id, { folder: 'a' }), true)
      const other = await kit.call(session, token, 'verify', id, { folder: 'b' })
      const seen = refused('other arguments', other, 409, 'call_conflict')
      const [call] = await kit.calls(session)
      same('attempts and conflicts', [call?.attempts, call?.conflicts], [1, 1])
      same('runs', sandbox.collects.size, 1)
      return seen
    },
  },
  {
    name: 'conflict-answered',
    rule: 'CALL6',
    async run(kit) {
      const session = await kit.configured('automation')
      const token = await kit.token(session)
      const id = kit.id('completion')
      const complete = (summary: string) =>
        kit.call(session, token, 'automation.complete', id, completionOf(session, id, summary))
      answered('first', await complete('one'), true)
      return answered('other arguments', await complete('another'), false).result
    },
  },
]
