import { type AgentEvent, DownMessage, type UpMessage } from '../src/contract/link.ts'

type Down<T extends DownMessage['t']> = Extract<DownMessage, { t: T }>

/**
 * The sandbox's side of the link, for cases that need a sandbox. It keeps every message that has come, in order, and waits
 * for one with a limit; it answers nothing by itself.
 */
export class Link {
  readonly messages: DownMessage[] = []
  readonly #socket: WebSocket
  readonly #timeoutMs: number
  readonly #closed = Promise.withResolvers<number>()
  readonly #opened = Promise.withResolvers<void>()
  #closeCode: number | null = null
  #wake = Promise.withResolvers<void>()
  onCommand: (command: Down<'command'>) => void = () => undefined

  constructor(url: string, sessionId: string, token: string, timeoutMs: number) {
    this.#timeoutMs = timeoutMs
    const init = { headers: { authorization: `Bearer ${token}` } }
    const address = `${url.replace(/^http/, 'ws')}/sandbox/${sessionId}/link`
    this.#socket = new WebSocket(address, init)
    this.#socket.addEventListener('message', ({ data }) => this.#receive(String(data)))
    this.#socket.addEventListener('open', () => this.#opened.resolve())
    this.#socket.addEventListener('close', ({ code }) => {
      this.#closeCode = code
      this.#closed.resolve(code)
      this.#opened.reject(new Error(`The link was refused or closed with ${code}`))
      this.#woken()
    })
    this.#opened.promise.catch(() => undefined)
  }

  #receive(text: string): void {
    const message = DownMessage.parse(JSON.parse(text))
    this.messages.push(message)
    this.#woken()
    if (message.t === 'command') this.onCommand(message)
  }

  #woken(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }

  opened(): Promise<void> {
    return this.#within(this.#opened.promise, 'the link to open')
  }

  /** The close code. */
  closed(): Promise<number> {
    return this.#within(this.#closed.promise, 'the link to close')
  }

  send(message: UpMessage): void {
    this.sendText(JSON.stringify(message))
  }

  sendText(text: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text)
  }

  close(): void {
    this.#socket.close(1000)
  }

  hello(protocols = [1]): void {
    this.send({ t: 'hello', protocols, agent: 'conformance', boot: 'conformance', ready: true })
  }

  async greet(): Promise<Down<'welcome'>> {
    await this.opened()
    this.hello()
    return this.next('welcome')
  }

  sendEvents(...seqs: number[]): void {
    this.send({ t: 'events', items: seqs.map(notice) })
  }

  /** The first message of this kind, also among those that have come already. */
  next<T extends DownMessage['t']>(t: T): Promise<Down<T>> {
    return this.#within(this.#find(t), `"${t}" on the link`)
  }

  async #find<T extends DownMessage['t']>(t: T): Promise<Down<T>> {
    for (;;) {
      const found = this.messages.find((message) => message.t === t)
      if (found) return found as Down<T>
      if (this.#closeCode !== null)
        throw new Error(`The link closed with ${this.#closeCode} before "${t}" came`)
      await this.#wake.promise
    }
  }

  async #within<T>(work: Promise<T>, what: string): Promise<T> {
    const late = Promise.withResolvers<never>()
    const error = new Error(`Waited ${this.#timeoutMs} ms for ${what}`)
    const timer = setTimeout(() => late.reject(error), this.#timeoutMs)
    return Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
  }
}

export const noticeText = (seq: number) => `notice ${seq}`

function notice(seq: number): AgentEvent {
  return { seq, at: seq, kind: 'agent.notice', data: { message: noticeText(seq) } }
}
