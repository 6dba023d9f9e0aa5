/**
 * What lies between a sandbox and the vendor of its model: which headers pass, how long a body may fall silent, and what
 * the answer says it has used. Promises to pass every byte on as it comes, and never to fail for what it cannot read:
 * counting is a by-product. Called by routes/models.ts alone.
 */
import { maxStepTokens } from '../../contract/reported.ts'
import type { ModelUsage } from '../../core/session/budget/usage.ts'

const maxLineCharacters = 1024 * 1024

/** Belong to one connection, not to the message; or name us, our caller or its credentials. */
const notRelayed = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'host',
  'content-length',
  // Bodies pass through decoded: the runtime's fetch decodes them on the way.
  'accept-encoding',
  'content-encoding',
  'authorization',
  'x-api-key',
  'api-key',
  'cookie',
  'set-cookie',
  'forwarded',
  'via',
  'x-real-ip',
  'x-request-id',
])

export function relayHeaders(headers: Headers): Headers {
  const named = new Set(
    (headers.get('connection') ?? '').split(',').map((name) => name.trim().toLowerCase()),
  )
  const kept = new Headers()
  headers.forEach((value, name) => {
    if (notRelayed.has(name) || named.has(name) || /^(x-forwarded-|cf-|x-gantry-)/.test(name))
      return
    kept.append(name, value)
  })
  return kept
}

/** Passes a body on as it comes; ends it if the sender falls silent, and ends the sender if the reader leaves. */
export function withIdleLimit(
  body: ReadableStream<Uint8Array>,
  silenceMs: number,
  upstream: AbortController,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const timer = setTimeout(() => upstream.abort(), silenceMs)
      try {
        const { done, value } = await reader.read()
        if (done) controller.close()
        else controller.enqueue(value)
      } finally {
        clearTimeout(timer)
      }
    },
    async cancel(reason) {
      await reader.cancel(reason)
      upstream.abort()
    },
  })
}

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
  typeof value === 'number' && value >= 0 && value <= maxStepTokens ? Math.trunc(value) : 0
