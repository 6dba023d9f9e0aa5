import type { Session } from '../../src/contract/session.ts'
import { same } from '../check.ts'
import type { Kit } from '../kit.ts'
import { noticeText } from '../link.ts'
import type { Case } from './case.ts'

async function withLink(kit: Kit) {
  const session = await kit.session()
  const token = await kit.token(session)
  const link = kit.link(session, token)
  await link.greet()
  return { session, token, link }
}

async function inLog(kit: Kit, session: Session, ...seqs: number[]): Promise<string> {
  same('the log', await kit.notices(session), seqs.map(noticeText))
  return `stored ${seqs.join(', ')}`
}

export const eventCases: readonly Case[] = [
  {
    name: 'events-acknowledged',
    rule: 'EVT5',
    async run(kit) {
      const { session, link } = await withLink(kit)
      link.sendEvents(1, 2, 3)
      const { seq } = await link.next('ack')
      same('acknowledged', seq, 3)
      return `${await inLog(kit, session, 1, 2, 3)}, acknowledged ${seq}`
    },
  },
  {
    name: 'events-repeated',
    rule: 'EVT5',
    async run(kit) {
      const { session, link } = await withLink(kit)
      link.sendEvents(1, 2, 3)
      link.sendEvents(2, 3, 4)
      await kit.stored(session, 4)
      return inLog(kit, session, 1, 2, 3, 4)
    },
  },
  {
    name: 'events-gap',
    rule: 'EVT5',
    async run(kit) {
      const { session, link } = await withLink(kit)
      link.sendEvents(1)
      link.sendEvents(3)
      link.sendEvents(2)
      await kit.stored(session, 2)
      return inLog(kit, session, 1, 2)
    },
  },
  {
    name: 'link-resumed',
    rule: 'LINK1',
    async run(kit) {
      const { session, token, link } = await withLink(kit)
      link.sendEvents(1, 2, 3)
      await kit.stored(session, 3)
      link.close()
      const next = kit.link(session, token)
      const { ackedSeq } = await next.greet()
      same('last stored event', ackedSeq, 3)
      next.sendEvents(4)
      await kit.stored(session, 4)
      return inLog(kit, session, 1, 2, 3, 4)
    },
  },
]
