import type { SessionEvent } from '../contract/events.ts'
import { Abilities } from './abilities.ts'
import { type EventsFrom, followSessionEvents } from './events.ts'
import { type ClientOptions, Transport } from './transport.ts'

/**
 * The typed client of a deployment: the public API by nouns, with what a caller would else write again and again, such as
 * sending again what had no answer, waiting for an end, and going on with a stream of events. It uses nothing but HTTP.
 */
export class GantryClient {
  readonly abilities: Abilities
  readonly #transport: Transport

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options)
    this.abilities = new Abilities(this.#transport)
  }

  /** The events of a session, each once and in order; it comes back by itself when the stream ends. */
  events(sessionId: string, from: EventsFrom = {}): AsyncGenerator<SessionEvent, void> {
    return followSessionEvents(this.#transport, sessionId, from)
  }
}
