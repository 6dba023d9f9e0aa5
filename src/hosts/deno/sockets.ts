// The sockets of one session: the agent's link and the streams of those who watch. They stay open while the session's
// actor is closed. A second link of the agent supersedes the first. sessions.ts holds one for each session that has a
// link or watchers.

import type { SessionEvent } from '../../contract/events.ts'
import { linkClose } from '../../contract/link.ts'
import { EventFeed } from '../../adapters/event-feed.ts'

/** As every WebSocket has it. */
export interface LinkSocket {
  readonly readyState: number
  send(text: string): void
  close(code: number, reason: string): void
}

const open = 1
const stopping = 1000

export class SessionSockets {
  #link: { socket: LinkSocket; greeted: boolean; heardAt: number } | null = null
  readonly #watchers = new Set<EventFeed>()

  /** An older one is superseded. */
  accept(socket: LinkSocket, now: number): void {
    this.#link?.socket.close(linkClose.superseded, 'Connected again')
    this.#link = { socket, greeted: false, heardAt: now }
  }

  /** Something has come by this socket, if only a ping. */
  heard(socket: LinkSocket, now: number): void {
    if (this.#link?.socket === socket) this.#link.heardAt = now
  }

  heardAt(): number | null {
    return this.#link?.socket.readyState === open ? this.#link.heardAt : null
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
    const watcher = new EventFeed(() => {
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
