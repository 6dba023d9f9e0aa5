// The agent's side of the link: one WebSocket at a time. It is opened again after every loss, with growing pauses,
// until it is stopped or the control plane has fenced this sandbox. A connection that is silent for 40 s counts as
// lost. The link promises no delivery: whoever needs a message to arrive sends it again after the next welcome. Only
// the uplink uses it.

import {
  DownMessage,
  linkClose,
  linkPing,
  linkPong,
  linkProtocols,
  type UpMessage,
} from '../../src/contract/link.ts'
import { version } from '../../src/contract/version.ts'
import { log } from '../log.ts'

const pingEveryMs = 15_000
/** No word for this long: the connection is dead, whatever the socket says. */
const silenceMs = 40_000
const connectTimeoutMs = 15_000
const firstBackoffMs = 250
const maxBackoffMs = 10_000
/** So often an upgrade may fail before the control plane is asked over HTTP whether this sandbox still counts. */
const failuresBeforeProbe = 3

export interface LinkOptions {
  url: string
  boot: string
  token: () => string
  isReady: () => boolean
  /** The control plane has answered the hello: everything unacknowledged goes out now. */
  onWelcome: (ackedSeq: number) => void
  onMessage: (message: Exclude<DownMessage, { t: 'welcome' }>) => void
  onDown: () => void
  onTick: () => void
  /** This sandbox is replaced, or cannot be served: stop for good. */
  onFenced: (reason: string) => void
  /** Asked after several refused upgrades, which carry no reason of their own. */
  isFenced: () => Promise<boolean>
}

export class Link {
  readonly #options: LinkOptions
  #socket: WebSocket | undefined
  #welcomed = false
  /** Of the last welcome; 0 before the first. */
  protocol = 0
  #stopped = false
  #failures = 0
  #heardAt = 0
  #pinger: NodeJS.Timeout | undefined

  constructor(options: LinkOptions) {
    this.#options = options
  }

  get connected(): boolean {
    return this.#welcomed
  }

  get bufferedBytes(): number {
    return this.#socket?.bufferedAmount ?? 0
  }

  start(): void {
    this.#pinger = setInterval(() => this.#beat(), pingEveryMs)
    this.#connect()
  }

  stop(): void {
    this.#stopped = true
    clearInterval(this.#pinger)
    this.#socket?.close(1000)
    this.#lost()
  }

  /** False: not connected. Whoever needs the message to arrive sends it again after the next welcome. */
  send(message: UpMessage): boolean {
    if (!this.#welcomed || this.#socket?.readyState !== WebSocket.OPEN) return false
    this.#socket.send(JSON.stringify(message))
    return true
  }

  #connect(): void {
    if (this.#stopped) return
    const init = { headers: { authorization: `Bearer ${this.#options.token()}` } }
    const socket = new WebSocket(this.#options.url, init)
    this.#socket = socket
    this.#heardAt = Date.now()
    const timeout = setTimeout(() => this.#drop(socket), connectTimeoutMs)
    socket.addEventListener('open', () => {
      clearTimeout(timeout)
      socket.send(
        JSON.stringify({
          t: 'hello',
          protocols: [...linkProtocols],
          agent: `gantry-agent/${version}`,
          boot: this.#options.boot,
          ready: this.#options.isReady(),
        } satisfies UpMessage),
      )
    })
    socket.addEventListener('message', (event) => this.#receive(socket, event.data))
    socket.addEventListener('error', () => undefined)
    socket.addEventListener('close', (event) => {
      clearTimeout(timeout)
      this.#closed(socket, event.code, event.reason)
    })
  }

  #receive(socket: WebSocket, data: unknown): void {
    if (socket !== this.#socket) return
    this.#heardAt = Date.now()
    if (data === linkPong || typeof data !== 'string') return
    const message = parseMessage(data)
    if (!message) return
    if (message.t !== 'welcome') return this.#options.onMessage(message)
    this.#welcomed = true
    this.#failures = 0
    this.protocol = message.protocol
    log('link.connected', { ackedSeq: message.ackedSeq })
    this.#options.onWelcome(message.ackedSeq)
  }

  #closed(socket: WebSocket, code: number, reason: string): void {
    if (socket !== this.#socket) return
    this.#socket = undefined
    this.#lost()
    if (this.#stopped) return
    log('link.closed', { code, reason })
    if (code === linkClose.fenced || code === linkClose.refused) {
      this.#stopped = true
      return this.#options.onFenced(reason || `closed with ${code}`)
    }
    this.#failures += 1
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    if (this.#failures % failuresBeforeProbe === 0 && (await this.#options.isFenced())) {
      this.#stopped = true
      return this.#options.onFenced('The control plane refuses this sandbox')
    }
    const ceiling = Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.min(this.#failures - 1, 10))
    // Jitter, so that the agents of a restarted control plane do not all come back at once; the first try is prompt.
    setTimeout(() => this.#connect(), ceiling * (0.2 + 0.8 * Math.random()))
  }

  #lost(): void {
    if (!this.#welcomed) return
    this.#welcomed = false
    this.#options.onDown()
  }

  #beat(): void {
    this.#options.onTick()
    const socket = this.#socket
    if (!socket || socket.readyState !== WebSocket.OPEN) return
    if (Date.now() - this.#heardAt > silenceMs) return this.#drop(socket)
    socket.send(linkPing)
  }

  // A dead peer never answers the closing handshake, so the socket is given up at once.
  #drop(socket: WebSocket): void {
    if (socket !== this.#socket) return
    this.#closed(socket, 1006, 'silent')
    socket.close()
  }
}

function parseMessage(data: string): DownMessage | undefined {
  try {
    const parsed = DownMessage.safeParse(JSON.parse(data))
    if (parsed.success) return parsed.data
    log('link.message-not-understood', { issue: parsed.error.issues[0]?.message })
  } catch {
    log('link.message-not-json')
  }
  return undefined
}
