import type { Network } from './network.ts'
import { Process } from './process.ts'

interface SocketEvent {
  data?: string
  code?: number
  reason?: string
}
type Listener = (event: SocketEvent) => void

/** The control plane's end of a link, as its session's host keeps it. It outlives the session's instances. */
export interface ServerEnd {
  generation: number
  greeted: boolean
  isOpen: boolean
  heardAt: number
  send(text: string): void
  close(code: number, reason: string): void
}

/** Who takes the control plane's end of new sockets. */
export interface LinkServer {
  /** Throws if it is refused. */
  open(token: string, end: ServerEnd): Promise<void>
  process(token: string): Process
  received(end: ServerEnd, text: string): void
  closed(end: ServerEnd): void
  now(): number
}

/** One connection over the network: in order in each direction, until it is cut. */
export class SimulatedSocket {
  static readonly OPEN = 1
  readyState = 0
  readonly bufferedAmount = 0
  readonly #network: Network
  readonly #server: LinkServer
  readonly #owner: Process
  readonly #listeners = new Map<string, Listener>()
  #isTold = false
  readonly #up = {}
  readonly #down = {}
  readonly end: ServerEnd

  constructor(network: Network, server: LinkServer, token: string) {
    this.#network = network
    this.#server = server
    this.#owner = Process.current as Process
    this.end = {
      generation: 0,
      greeted: false,
      isOpen: false,
      heardAt: server.now(),
      send: (data) => this.#downwards('down', () => this.#tell('message', { data })),
      close: (code, reason) => {
        this.end.isOpen = false
        this.#downwards('close', () => this.#closed(code, reason))
      },
    }
    const refused = () => {
      this.#downwards('refused', () => this.#closed(1006, ''))
      this.#upwards('refused', () => this.#serverClosed())
    }
    network
      .call(
        'link.connect',
        () => server.process(token),
        () => server.open(token, this.end),
      )
      .then(
        () => this.#downwards('open', () => this.#opened()),
        () => refused(),
      )
    this.#owner.onDeath(() => this.cut('told'))
  }

  addEventListener(name: string, listener: Listener): void {
    this.#listeners.set(name, listener)
  }

  send(text: string): void {
    if (!this.#owner.isAlive || this.readyState !== SimulatedSocket.OPEN) return
    this.#upwards('up', () => this.#received(text))
  }

  #received(text: string): void {
    if (!this.end.isOpen) return
    // Answered by the platform, without waking the session.
    if (text !== 'ping') return this.#server.received(this.end, text)
    this.end.heardAt = this.#server.now()
    this.end.send('pong')
  }

  close(): void {
    if (this.readyState === 3) return
    this.readyState = 3
    this.#upwards('close', () => this.#serverClosed())
  }

  /** The connection is gone. silent: nobody is told, and both must find out. */
  cut(how: 'told' | 'silent'): void {
    this.#network.drop(this.#up)
    this.#network.drop(this.#down)
    if (how === 'silent') return this.#goSilent()
    this.#downwards('cut', () => this.#closed(1006, ''))
    this.#upwards('cut', () => this.#serverClosed())
  }

  #goSilent(): void {
    this.#upwards = () => undefined
    this.#downwards = () => undefined
  }

  #upwards = (what: string, arrive: () => void): void =>
    this.#network.send({
      what: `link.${what}`,
      channel: this.#up,
      arrive,
      lose: () => this.cut('told'),
    })

  #downwards = (what: string, arrive: () => void): void =>
    this.#network.send({
      what: `link.${what}`,
      channel: this.#down,
      arrive,
      lose: () => this.cut('told'),
    })

  #opened(): void {
    if (this.readyState !== 0) return
    this.readyState = 1
    this.#tell('open', {})
  }

  #closed(code: number, reason: string): void {
    if (this.readyState === 3) return
    this.readyState = 3
    this.#upwards('closed', () => this.#serverClosed())
    this.#tell('close', { code, reason })
  }

  /** The platform tells its end once, whoever has closed it. */
  #serverClosed(): void {
    if (this.end.generation === 0 || this.#isTold) return
    this.#isTold = true
    this.end.isOpen = false
    this.#server.closed(this.end)
  }

  #tell(name: string, event: SocketEvent): void {
    if (this.#owner.isAlive) this.#owner.run(() => this.#listeners.get(name)?.(event))
  }
}
