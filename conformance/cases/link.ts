import { linkClose, linkProtocols } from '../../src/contract/link.ts'
import type { Session } from '../../src/contract/session.ts'
import { answered, holds, refused, same } from '../check.ts'
import type { Kit } from '../kit.ts'
import { withSandbox } from './calls.ts'
import { type Case, outside } from './case.ts'

async function withLink(kit: Kit) {
  const session = await kit.session()
  const token = await kit.token(session)
  const link = kit.link(session, token)
  return { session, token, link, welcome: await link.greet() }
}

/** A token is good if a call gets an answer with it. */
async function goodToken(kit: Kit, session: Session, token: string): Promise<void> {
  const answer = await kit.call(session, token, 'verify', kit.id('token'), outside)
  answered('a call with the new token', answer, false)
}

const garbage = ['{', '[]', '{"t":"what"}', '{"t":"events","items":[]}', '{"t":"hello"}']

export const linkCases: readonly Case[] = [
  {
    name: 'link-doors',
    rule: 'AUTH4',
    async run(kit) {
      const session = await kit.session()
      const other = await kit.token(await kit.session())
      const person = await kit.token(session, { source: 'cli' })
      refused('no token', await kit.upgrade(session, null), 401, 'unauthenticated')
      refused('another session', await kit.upgrade(session, other), 403, 'other_session')
      refused('another source', await kit.upgrade(session, person), 403, 'not_sandbox')
      refused('an API key', await kit.upgrade(session, kit.key), 403, 'not_sandbox')
      return '401, 403, 403, 403'
    },
  },
  {
    name: 'link-hello',
    rule: 'LINK1',
    async run(kit) {
      const { session, welcome } = await withLink(kit)
      const known: readonly number[] = linkProtocols
      holds('protocol', welcome.protocol, known.includes(welcome.protocol), 'one of the hello')
      same('last stored event', welcome.ackedSeq, 0)
      const { sandbox } = await kit.api<Session>('GET', `/v1/sessions/${session.id}`)
      same('connected', sandbox.connected, true)
      return `protocol ${welcome.protocol}`
    },
  },
  {
    name: 'link-no-protocol',
    rule: 'LINK1',
    async run(kit) {
      const session = await kit.session()
      const link = kit.link(session, await kit.token(session))
      await link.opened()
      link.hello([9999])
      const code = await link.closed()
      same('close code', code, linkClose.tooOld)
      return `closed with ${code}`
    },
  },
  {
    name: 'link-garbage',
    rule: 'LINK6',
    async run(kit) {
      const session = await kit.session()
      const token = await kit.token(session)
      for (const text of garbage) {
        const link = kit.link(session, token)
        await link.opened()
        link.sendText(text)
        same(`close code after ${text}`, await link.closed(), linkClose.refused)
      }
      return `closed with ${linkClose.refused}`
    },
  },
  {
    name: 'link-superseded',
    rule: 'LINK3',
    async run(kit) {
      const { session, token, link } = await withLink(kit)
      await kit.link(session, token).greet()
      const code = await link.closed()
      same('close code of the older link', code, linkClose.superseded)
      return `closed with ${code}`
    },
  },
  {
    name: 'link-fenced',
    rule: 'SES9',
    async run(kit) {
      const { session, token, link } = await withLink(kit)
      await kit.replace(session)
      // At the latest at its next message.
      link.sendEvents(1)
      same('close code', await link.closed(), linkClose.fenced)
      const expired = await kit.token(session, { generation: 1, lifetimeSeconds: -60 })
      for (const old of [token, expired])
        refused('again', await kit.upgrade(session, old), 403, 'old_generation')
      same('events of the old one', await kit.notices(session), [])
      return `closed with ${linkClose.fenced}, then 403`
    },
  },
  {
    name: 'link-closed-session',
    rule: 'LINK4',
    async run(kit) {
      const { session, token, link } = await withLink(kit)
      await kit.close(session)
      link.sendEvents(1)
      same('close code', await link.closed(), linkClose.fenced)
      refused('again', await kit.upgrade(session, token), 403, 'session_closed')
      same('events after the close', await kit.notices(session), [])
      return `closed with ${linkClose.fenced}, then 403`
    },
  },
  {
    name: 'link-expired',
    rule: 'LINK5',
    async run(kit) {
      const session = await kit.session()
      const link = kit.link(session, await kit.token(session, { lifetimeSeconds: -60 }))
      const { token } = await link.next('token')
      same('close code', await link.closed(), linkClose.renewed)
      same('messages', link.messages.length, 1)
      await goodToken(kit, session, token)
      return `a new token, closed with ${linkClose.renewed}`
    },
  },
  {
    name: 'link-renew',
    rule: 'LINK5',
    async run(kit) {
      const { session, link } = await withLink(kit)
      link.send({ t: 'renew' })
      await goodToken(kit, session, (await link.next('token')).token)
      return 'a new token'
    },
  },
  {
    name: 'link-command-again',
    rule: 'LINK2',
    async run(kit) {
      const { session, token, sandbox } = await withSandbox(kit)
      sandbox.hold()
      const call = kit.call(session, token, 'verify', kit.id('command'))
      await sandbox.asked()
      sandbox.link.close()
      const next = kit.link(session, token)
      await next.greet()
      const { id } = await next.next('command')
      same('commands', [id], [...sandbox.collects])
      const result = { t: 'result', commandId: id } as const
      next.send({ ...result, ok: false, error: 'its first word' })
      next.send({ ...result, ok: true, data: { files: [] } })
      await next.next('resultAck')
      same('result', answered('answer', await call, false).result, 'its first word')
      return 'delivered again, first result counts'
    },
  },
  {
    name: 'gate-without-turn',
    rule: 'GATE4',
    async run(kit) {
      const { link } = await withLink(kit)
      link.send({
        t: 'ask',
        askId: `ask_${'0'.repeat(20)}` as never,
        tool: 'bash',
        callId: 'call',
        opencodeSessionId: 'conformance',
        input: { command: 'true' },
        inputHash: '0'.repeat(64),
      })
      const { decision, reason } = await link.next('answer')
      same('decision', decision, 'deny')
      return `deny: ${reason}`
    },
  },
]
