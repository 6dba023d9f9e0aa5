// The live events of one session for one reader. If the reader is slow, events are skipped, but never the last one: it
// shows the reader that something is missing, and the reader looks it up in the log. Both hosts create one per watcher.

import type { SessionEvent } from '../contract/events.ts'

const maxQueuedEvents = 256

export class EventFeed {
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

  /** Also after its reader has gone. */
  end(): void {
    try {
      this.#controller?.close()
    } catch {
      // Closed or cancelled already.
    }
  }
}
