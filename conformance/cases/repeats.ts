import type { Session } from '../../src/contract/session.ts'
import { answered, holds, same, sameBytes } from '../check.ts'
import type { Kit } from '../kit.ts'
import { command, completionOf, withSandbox } from './calls.ts'
import type { Case } from './case.ts'

/** The record knows one call, which was carried out once. */
async function ranOnce(kit: Kit, session: Session): Promise<void> {
  const seen = (await kit.calls(session)).map(({ attempts, conflicts }) => [attempts, conflicts])
  same('attempts and conflicts of each call', seen, [[1, 0]])
}

const count = 20

export const repeatCases: readonly Case[] = [
  {
    name: 'duplicate',
    rule: 'CALL4',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      const id = kit.id('duplicate')
      const first = await kit.call(session, token, 'verify', id)
      answered('first', first, true)
      sameBytes('second', [first, await kit.call(session, token, 'verify', id)])
      same('runs', sandbox.collects.size, 1)
      await ranOnce(kit, session)
      return 'one run, equal bytes'
    },
  },
  {
    name: 'twenty-at-once',
    rule: 'CALL3',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      const id = kit.id('twenty')
      const release = sandbox.hold()
      const first = kit.call(session, token, 'verify', id)
      await sandbox.asked()
      const others = Array.from({ length: count - 1 }, () => kit.call(session, token, 'verify', id))
      // Each of these took a round trip after the others were sent, so that most of them have arrived.
      for (let trips = 0; trips < 3; trips++) await kit.calls(session)
      release()
      const answers = await Promise.all([first, ...others])
      answered('first', await first, true)
      sameBytes('all', answers)
      same('runs', sandbox.collects.size, 1)
      await ranOnce(kit, session)
      return 'one run, equal bytes'
    },
  },
  {
    name: 'arguments-reordered',
    rule: 'CALL6',
    async run(kit) {
      const session = await kit.configured('setup')
      const token = await kit.token(session)
      const id = kit.id('order')
      const reordered = Object.fromEntries(Object.entries(command).toReversed())
      const save = (item: object) =>
        kit.call(session, token, 'save_service_commands', id, { commands: [item] })
      const first = await save(command)
      answered('first', first, true)
      sameBytes('keys in another order', [first, await save(reordered)])
      await ranOnce(kit, session)
      return 'one run, equal bytes'
    },
  },
  {
    name: 'refusal-replayed',
    rule: 'CALL4',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      sandbox.collect = async () => ({ ok: false, error: kit.id('Cannot collect') })
      const id = kit.id('refusal')
      const first = await kit.call(session, token, 'verify', id)
      const { result } = answered('first', first, false)
      holds('result', result, result.startsWith('Cannot collect'), 'what the sandbox said')
      sameBytes('second', [first, await kit.call(session, token, 'verify', id)])
      same('runs', sandbox.collects.size, 1)
      return 'success: false, equal bytes'
    },
  },
  {
    name: 'cut-socket',
    rule: 'CALL3',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      const id = kit.id('cut')
      const release = sandbox.hold()
      const lost = kit.startCall(session, token, 'verify', id, {})
      await sandbox.asked()
      lost.cut()
      const retry = kit.call(session, token, 'verify', id)
      await kit.calls(session)
      release()
      const answer = await retry
      const { result } = answered('retry', answer, true)
      const [call] = await kit.calls(session)
      same('the recorded answer', call?.response?.result, result)
      sameBytes('another retry', [answer, await kit.call(session, token, 'verify', id)])
      same('runs', sandbox.collects.size, 1)
      await ranOnce(kit, session)
      return 'one run, equal bytes'
    },
  },
  {
    name: 'next-generation',
    rule: 'CALL4',
    async run(kit) {
      const { session, token } = await withSandbox(kit)
      const id = kit.id('generation')
      const first = await kit.call(session, token, 'verify', id)
      answered('first', first, true)
      await kit.replace(session)
      const fresh = await kit.token(session)
      await kit.sandbox(session, fresh)
      sameBytes('by the next sandbox', [first, await kit.call(session, fresh, 'verify', id)])
      await ranOnce(kit, session)
      return 'one run, equal bytes'
    },
  },
  {
    name: 'alias',
    rule: 'CALL5',
    async run(kit) {
      const session = await kit.configured('automation')
      const token = await kit.token(session)
      const id = kit.id('alias')
      const complete = (tool: string) =>
        kit.call(session, token, tool, id, completionOf(session, id))
      const first = await complete('automation.complete')
      answered('automation.complete', first, true)
      sameBytes('automation_complete', [first, await complete('automation_complete')])
      await ranOnce(kit, session)
      return 'one call under both names'
    },
  },
]
