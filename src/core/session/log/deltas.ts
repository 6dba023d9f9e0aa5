import type { AgentEvent } from '../../../contract/link.ts'
import type { HidingStream } from '../../redaction/redaction.ts'

/**
 * Secrets must not pass in two halves. What might still become one is held back until the next piece of the same part;
 * what is left at the end of a part goes nowhere, since `message.text` then has the whole. The link sends the agent's events
 * through it.
 */
export class Deltas {
  readonly #open: () => HidingStream
  readonly #streams = new Map<string, HidingStream>()

  constructor(open: () => HidingStream) {
    this.#open = open
  }

  redact(event: AgentEvent): AgentEvent {
    const part = String(event.data['partId'])
    if (event.kind === 'message.text') this.#streams.delete(part)
    if (event.kind !== 'message.delta') return event
    const stream = this.#streams.get(part) ?? this.#open()
    this.#streams.set(part, stream)
    return { ...event, data: { ...event.data, delta: stream.push(String(event.data['delta'])) } }
  }

  /** Parts of a turn that was cut off have no end of their own. */
  clear(): void {
    this.#streams.clear()
  }
}
