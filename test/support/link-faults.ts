import { linkClose } from '../../src/contract/link.ts'
import type { Fault, LinkContext } from './broken-gateway.ts'
import { claimsOf, tokenOf } from './gateway-world.ts'

const closesAs = (
  name: string,
  fails: string,
  isMeant: (code: number, link: LinkContext) => boolean,
): Fault => ({ name, fails, close: (code, link) => (isMeant(code, link) ? 1000 : code) })

export const linkFaults: readonly Fault[] = [
  {
    name: 'opens the link without a token',
    fails: 'link-doors',
    async open(request, sessionId, world) {
      if (tokenOf(request) === null)
        request.headers['authorization'] = `Bearer ${await world.goodToken(sessionId)}`
    },
  },
  {
    name: 'names a protocol that was not offered',
    fails: 'link-hello',
    down(message) {
      if (message.t === 'welcome') message.protocol = 9999
    },
  },
  closesAs('has no word for old agents', 'link-no-protocol', (code) => code === linkClose.tooOld),
  closesAs('has no word for garbage', 'link-garbage', (code) => code === linkClose.refused),
  closesAs(
    'has no word for superseded links',
    'link-superseded',
    (code) => code === linkClose.superseded,
  ),
  closesAs(
    'lets a replaced sandbox connect again',
    'link-fenced',
    (code, { world, sessionId }) => code === linkClose.fenced && !world.closed.has(sessionId),
  ),
  {
    name: 'opens the link for old generations',
    fails: 'link-fenced',
    async open(request, sessionId, world) {
      if ((claimsOf(tokenOf(request))?.gen ?? Infinity) < world.generation(sessionId))
        request.headers['authorization'] = `Bearer ${await world.goodToken(sessionId)}`
    },
  },
  closesAs(
    'lets the sandbox of a closed session connect again',
    'link-closed-session',
    (code, { world, sessionId }) => code === linkClose.fenced && world.closed.has(sessionId),
  ),
  {
    name: 'gives a bad token for an expired one',
    fails: 'link-expired',
    down(message, { expired }) {
      if (message.t === 'token' && expired) message.token = `${message.token}x`
    },
  },
  {
    name: 'renews with a bad token',
    fails: 'link-renew',
    down(message, { expired }) {
      if (message.t === 'token' && !expired) message.token = `${message.token}x`
    },
  },
  {
    name: 'names a command anew on each link',
    fails: 'link-command-again',
    down(message, { world, sessionId }) {
      if (message.t !== 'command') return
      const known = world.notes('commands', sessionId)
      if (known.has(message.id)) message.id = `${message.id}-again`
      known.set(message.id, 1)
    },
  },
  {
    name: 'allows what should be denied',
    fails: 'gate-without-turn',
    down(message) {
      if (message.t === 'answer') message.decision = 'allow'
    },
  },
  {
    name: 'acknowledges less than it has stored',
    fails: 'events-acknowledged',
    down(message) {
      if (message.t === 'ack') message.seq -= 1
    },
  },
  {
    name: 'stores events again',
    fails: 'events-repeated',
    up(message, { world, sessionId }) {
      if (message.t !== 'events') return
      const sent = world.notes('repeats', sessionId)
      const isAgain = message.items.some(({ seq }) => sent.has(seq))
      for (const item of message.items) {
        if (isAgain) item.seq = Math.max(...sent.values()) + 1
        sent.set(item.seq, item.seq)
      }
    },
  },
  {
    name: 'stores events that follow a gap',
    fails: 'events-gap',
    up(message, { world, sessionId }) {
      if (message.t !== 'events') return
      const sent = world.notes('gaps', sessionId)
      for (const item of message.items) {
        const { seq } = item
        item.seq = sent.get(seq) ?? sent.size + 1
        sent.set(seq, item.seq)
      }
    },
  },
  {
    name: 'forgets what it has stored',
    fails: 'link-resumed',
    down(message) {
      if (message.t === 'welcome') message.ackedSeq = 0
    },
  },
]
