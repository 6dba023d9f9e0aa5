import type { ModelUsage } from '../core/sessions/usage.ts'

const maxLineCharacters = 1024 * 1024

/** Passes a vendor's answer on as it comes and tells at its end what it used, if the vendor said so. */
export function countUsage(
  body: ReadableStream<Uint8Array>,
  onEnd: (usage: ModelUsage) => void,
): ReadableStream<Uint8Array> {
  const decoder = new TextDecoder()
  const counter = new UsageCounter()
  let line = ''
  const read = (text: string) => {
    const lines = (line + text).split('\n')
    line = (lines.pop() ?? '').slice(0, maxLineCharacters)
    for (const each of lines) counter.read(each)
  }
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        read(decoder.decode(chunk, { stream: true }))
        controller.enqueue(chunk)
      },
      flush() {
        counter.read(line)
        const usage = counter.usage()
        if (usage) onEnd(usage)
      },
    }),
  )
}

interface Said {
  model?: unknown
  usage?: Partial<
    Record<'prompt_tokens' | 'completion_tokens' | 'input_tokens' | 'output_tokens', unknown>
  > | null
}

/** Both vendors' words, streamed or whole. Numbers only ever grow within one answer, so the largest is the last. */
class UsageCounter {
  #model = ''
  #input = 0
  #output = 0
  #seen = false

  read(line: string): void {
    const text = line.startsWith('data:') ? line.slice(5) : line
    if (!text.includes('"usage"') && (this.#model || !text.includes('"model"'))) return
    try {
      const said = JSON.parse(text) as Said & { message?: Said; response?: Said }
      this.#take(said)
      if (said.message) this.#take(said.message)
      if (said.response) this.#take(said.response)
    } catch {
      // Not ours to judge: the answer passes on as it is.
    }
  }

  #take({ model, usage }: Said): void {
    if (typeof model === 'string') this.#model = model
    if (!usage) return
    this.#seen = true
    this.#input = Math.max(this.#input, count(usage.prompt_tokens), count(usage.input_tokens))
    this.#output = Math.max(
      this.#output,
      count(usage.completion_tokens),
      count(usage.output_tokens),
    )
  }

  usage(): ModelUsage | null {
    if (!this.#seen) return null
    return { model: this.#model || 'unknown', inputTokens: this.#input, outputTokens: this.#output }
  }
}

const count = (value: unknown) =>
  typeof value === 'number' && Number.isFinite(value) ? Math.max(0, Math.trunc(value)) : 0
