import type { AgentSocket } from './agent.ts'
import type { LinkSocket } from '../../src/hosts/deno/sockets.ts'

interface Events {
  open: object
  message: { data: unknown }
  close: { code: number; reason: string }
}
type Listen<T extends keyof Events> = (event: Events[T]) => void

/** One end of a WebSocket whose other end is in this process too. */
class End implements AgentSocket, LinkSocket {
  readyState = 1
  other!: End
  readonly #listeners: { type: keyof Events; listen: (event: never) => void }[] = []

  addEventListener<T extends keyof Events>(type: T, listen: Listen<T>): void {
    this.#listeners.push({ type, listen })
  }
  send(text: string): void {
    if (this.readyState === 1) this.other.#tell('message', { data: text })
  }
  close(code = 1000, reason = ''): void {
    for (const end of [this, this.other]) {
      if (end.readyState !== 1) continue
      end.readyState = 3
      end.#tell('close', { code, reason })
    }
  }
  #tell<T extends keyof Events>(type: T, event: Events[T]): void {
    for (const listener of this.#listeners)
      if (listener.type === type) (listener.listen as Listen<T>)(event)
  }
}

/** What the one end sends arrives at the other at once. */
export function socketPair(): [agent: End, host: End] {
  const [agent, host] = [new End(), new End()]
  agent.other = host
  host.other = agent
  return [agent, host]
}
