import { refused, same } from '../check.ts'
import type { Kit } from '../kit.ts'
import { type Case, outside } from './case.ts'

type Credential = (kit: Kit) => Promise<string | null>

/** A correct call by somebody who may not make it: refused, and no call is left behind. */
function stranger(
  name: string,
  rule: string,
  wanted: [status: number, code: string],
  tokensOf: (kit: Kit, session: Awaited<ReturnType<Kit['session']>>) => Promise<(string | null)[]>,
): Case {
  return {
    name,
    rule,
    async run(kit) {
      const session = await kit.session()
      let seen = ''
      for (const token of await tokensOf(kit, session)) {
        const answer = await kit.call(session, token, 'verify', kit.id('door'), outside)
        seen = refused('answer', answer, ...wanted)
      }
      same('calls left behind', await kit.calls(session), [])
      return seen
    },
  }
}

const otherSession: Credential = async (kit) => kit.token(await kit.session())

/** The same claims under a signature that is not the deployment's. */
function forge(token: string): string[] {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const other = signature.startsWith('A') ? 'B' : 'A'
  const none = Buffer.from('{"alg":"none"}').toString('base64url')
  return [`${header}.${claims}.${other}${signature.slice(1)}`, `${none}.${claims}.`, 'nonsense']
}

export const doorCases: readonly Case[] = [
  stranger('token-missing', 'CALL1', [401, 'unauthenticated'], async () => [null]),
  stranger('token-forged', 'AUTH4', [401, 'unauthenticated'], async (kit, session) =>
    forge(await kit.token(session)),
  ),
  stranger('token-expired', 'AUTH4', [401, 'token_expired'], async (kit, session) => [
    await kit.token(session, { lifetimeSeconds: 0 }),
    await kit.token(session, { lifetimeSeconds: -3600 }),
  ]),
  stranger('token-other-session', 'AUTH4', [403, 'other_session'], async (kit) => [
    await otherSession(kit),
  ]),
  stranger('token-other-source', 'AUTH4', [403, 'not_sandbox'], async (kit, session) => [
    await kit.token(session, { source: 'cli' }),
  ]),
  stranger('token-old-generation', 'SES9', [403, 'old_generation'], async (kit, session) => {
    const old = await kit.token(session)
    await kit.replace(session)
    return [old, await kit.token(session, { generation: 1 })]
  }),
  stranger('key-at-tools', 'AUTH6', [403, 'not_sandbox'], async (kit) => [kit.key]),
  {
    name: 'token-at-api',
    rule: 'AUTH6',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      const answer = await kit.send('GET', `/v1/sessions/${session.id}`, token).answer
      return refused('answer', answer, 403, 'forbidden')
    },
  },
  {
    name: 'check-order',
    rule: 'CALL1',
    async run(kit) {
      const session = await kit.session()
      const old = await kit.token(session)
      await kit.replace(session)
      const rows: [string, string | null, number, string][] = [
        ['no token', null, 401, 'unauthenticated'],
        ['another session', await otherSession(kit), 403, 'other_session'],
        ['old generation', old, 403, 'old_generation'],
        ['good token', await kit.token(session), 400, 'invalid_request'],
      ]
      const seen: number[] = []
      for (const [who, token, status, code] of rows) {
        const wrong = { token, tool: 'no_such_tool', body: '{' }
        const answer = await kit.startCallback(session, wrong).answer
        refused(`${who}, bad body, unknown tool`, answer, status, code)
        seen.push(answer.status)
      }
      return `${seen.join(', ')} where all is wrong`
    },
  },
]
