import { answered, refused, sameBytes } from '../check.ts'
import { withSandbox } from './calls.ts'
import { type Case, outside } from './case.ts'

export const lateCases: readonly Case[] = [
  {
    name: 'late-settled',
    rule: 'CALL11',
    async run(kit) {
      const { session, token } = await withSandbox(kit)
      const id = kit.id('late')
      const first = await kit.call(session, token, 'verify', id)
      answered('first', first, true)
      await kit.close(session)
      sameBytes('after the close', [first, await kit.call(session, token, 'verify', id)])
      return 'equal bytes after the close'
    },
  },
  {
    name: 'late-new',
    rule: 'CALL11',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      await kit.close(session)
      const answer = await kit.call(session, token, 'verify', kit.id('late'), outside)
      return refused('a new id after the close', answer, 403, 'session_closed')
    },
  },
  {
    name: 'late-deleted',
    rule: 'SES6',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      const id = kit.id('late')
      answered('before', await kit.call(session, token, 'verify', id, outside), false)
      await kit.delete(session)
      const answer = await kit.call(session, token, 'verify', id, outside)
      return refused('after the deletion', answer, 404, 'not_found')
    },
  },
]
