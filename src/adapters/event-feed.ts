import type { SessionEvent } from '../contract/events.ts'

const maxQueuedEvents = 256

/** A feed that may skip events when its reader is slow, but never the last one: the reader looks up what it missed. */
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
