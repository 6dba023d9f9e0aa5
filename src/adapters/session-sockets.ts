import type { SessionEvent } from '../contract/events.ts'
import { linkClose } from '../contract/link.ts'

/** As every WebSocket has it. */
export interface LinkSocket {
  readonly readyState: number
  send(text: string): void
  close(code: number, reason: string): void
}

const open = 1
const stopping = 1000
const maxQueuedEvents = 256

/** The agent's socket and the watchers of one session. They stay while the session itself sleeps. */
export class SessionSockets {
  #link: { socket: LinkSocket; greeted: boolean } | null = null
  readonly #watchers = new Set<Watcher>()

  /** An older one is superseded. */
  accept(socket: LinkSocket): void {
    this.#link?.socket.close(linkClose.superseded, 'Connected again')
    this.#link = { socket, greeted: false }
  }

  /** False if it was not, or no longer, the agent's. */
  drop(socket: LinkSocket): boolean {
    if (!this.holds(socket)) return false
    this.#link = null
    return true
  }

  holds(socket: LinkSocket): boolean {
    return this.#link?.socket === socket
  }

  sendToAgent(text: string): boolean {
    if (this.#link?.socket.readyState !== open) return false
    this.#link.socket.send(text)
    return true
  }

  closeAgent(code: number, reason: string): void {
    if (this.#link?.socket.readyState === open) this.#link.socket.close(code, reason)
  }

  greet(): void {
    if (this.#link) this.#link.greeted = true
  }

  connected(): boolean {
    return this.#link?.greeted === true && this.#link.socket.readyState === open
  }

  watched(): boolean {
    return this.#watchers.size > 0
  }

  watch(onEnd: () => void): ReadableStream<SessionEvent> {
    const watcher = new Watcher(() => {
      this.#watchers.delete(watcher)
      onEnd()
    })
    this.#watchers.add(watcher)
    return watcher.stream
  }

  publish(events: SessionEvent[]): void {
    for (const watcher of this.#watchers) watcher.publish(events)
  }

  unused(): boolean {
    return this.#link === null && this.#watchers.size === 0
  }

  linked(): boolean {
    return this.#link !== null
  }

  close(code = stopping, reason = 'The control plane is stopping'): void {
    this.closeAgent(code, reason)
    for (const watcher of this.#watchers) watcher.end()
    this.#watchers.clear()
  }
}

/** A feed that may skip events when its reader is slow, but never the last one: the reader looks up what it missed. */
class Watcher {
  readonly stream: ReadableStream<SessionEvent>
  #controller: ReadableStreamDefaultController<SessionEvent> | undefined
  #skipped: SessionEvent | null = null

  constructor(onCancel: () => void) {
    this.stream = new ReadableStream<SessionEvent>(
      {
        start: (controller) => {
          this.#controller = controller
        },
        pull: (controller) => {
          if (this.#skipped) controller.enqueue(this.#skipped)
          this.#skipped = null
        },
        cancel: onCancel,
      },
      { highWaterMark: maxQueuedEvents },
    )
  }

  publish(events: SessionEvent[]): void {
    for (const event of events) {
      if ((this.#controller?.desiredSize ?? 0) > 0) this.#controller?.enqueue(event)
      else this.#skipped = event
    }
  }

  end(): void {
    this.#controller?.close()
  }
}
