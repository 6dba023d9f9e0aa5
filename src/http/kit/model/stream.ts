/**
 * What lies between a sandbox and the vendor of its model: which headers pass, how long an answer may fall silent or
 * last, and what it says it has used. Promises to pass every byte on as it comes, never to fail for what it cannot read,
 * and to tell the end of each answer once. Called by routes/models.ts alone.
 */
import type { StepTokens } from '../../../contract/budget.ts'
import type { ModelProvider } from '../../../config.ts'
import type { CallEnd } from '../../../core/session/budget/model-calls.ts'

const maxTextCharacters = 8 * 1024 * 1024

/** What a vendor gets of a sandbox's headers. Any other may name a key, an address or a price of the vendor's. */
const sentHeaders = new Set([
  'accept',
  'anthropic-version',
  'user-agent',
  'x-session-affinity',
  'x-session-id',
])
/** Of Anthropic's trials those that change how it answers; others reach stored things, run tools or cost more. */
const sentBetas =
  /^(claude-code|effort|extended-cache-ttl|fine-grained-tool-streaming|interleaved-thinking|prompt-caching|structured-outputs|token-efficient-tools)-[\w-]+$/

export function modelStreamVendorHeaders(headers: Headers): Headers {
  const sent = new Headers()
  headers.forEach((value, name) => {
    if (sentHeaders.has(name)) sent.set(name, value)
  })
  const betas = (headers.get('anthropic-beta') ?? '').split(',').map((beta) => beta.trim())
  const kept = betas.filter((beta) => sentBetas.test(beta))
  if (kept.length > 0) sent.set('anthropic-beta', kept.join(','))
  return sent
}

/** Of an answer: belong to one connection, not to the message; or name us, our caller or its credentials. */
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

export function modelStreamAnswerHeaders(headers: Headers): Headers {
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

export interface Metering {
  provider: ModelProvider
  silenceMs: number
  /** No answer is longer. */
  longestMs: number
  now: () => number
  /** Ends the vendor's side. */
  upstream: AbortController
  onPiece(): void
  /** Once, however it ends. */
  onEnd(end: CallEnd): void
}

/**
 * Passes an answer on as it comes. Ends it if the vendor falls silent or goes on for too long, and ends the vendor if the
 * reader leaves.
 */
export function meteredModelStream(
  body: ReadableStream<Uint8Array>,
  isEventStream: boolean,
  metering: Metering,
): ReadableStream<Uint8Array> {
  const { upstream, silenceMs, longestMs, now } = metering
  const reader = body.getReader()
  const counter = new UsageCounter(metering.provider, isEventStream)
  const until = now() + longestMs
  let hasEnded = false
  const end = (brokenBy: string | null) => {
    if (hasEnded) return
    hasEnded = true
    metering.onEnd(counter.end(brokenBy))
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const timer = setTimeout(() => upstream.abort(), silenceMs)
      try {
        const { done, value } = await reader.read()
        if (done) {
          end(null)
          return controller.close()
        }
        counter.read(value)
        metering.onPiece()
        controller.enqueue(value)
        if (now() > until) throw new Error('The answer does not end')
      } catch (error) {
        upstream.abort()
        end('The answer broke off')
        throw error
      } finally {
        clearTimeout(timer)
      }
    },
    async cancel(reason) {
      end('The answer was not read to its end')
      upstream.abort()
      await reader.cancel(reason).catch(() => undefined)
    },
  })
}

type Counts = Record<string, unknown>
interface Said {
  usage?: Counts | null
}

/** Both vendors' words, streamed or whole. Numbers only ever grow within one answer, so the largest is the last. */
class UsageCounter {
  readonly #provider: ModelProvider
  readonly #isEventStream: boolean
  readonly #decoder = new TextDecoder()
  readonly #most = new Map<string, number>()
  #text = ''
  #bytes = 0
  #isSeen = false
  /** What a message begins with is no count of its answer. */
  #isFinal = false

  constructor(provider: ModelProvider, isEventStream: boolean) {
    this.#provider = provider
    this.#isEventStream = isEventStream
  }

  read(chunk: Uint8Array): void {
    this.#bytes += chunk.byteLength
    const piece = this.#decoder.decode(chunk, { stream: true })
    // Only what is new is searched: a line of megabytes comes in thousands of pieces.
    const lineEnd = this.#isEventStream ? piece.lastIndexOf('\n') : -1
    if (lineEnd >= 0) {
      const lines = (this.#text + piece.slice(0, lineEnd)).split('\n')
      for (const line of lines) this.#readText(line)
      this.#text = piece.slice(lineEnd + 1)
    } else if (this.#text.length < maxTextCharacters) this.#text += piece
  }

  end(brokenBy: string | null): CallEnd {
    this.#readText(this.#text)
    const tokens = this.#isSeen ? this.#tokens() : null
    if (this.#isFinal && tokens) return { kind: 'said', tokens, answerBytes: this.#bytes }
    return {
      kind: 'broken',
      tokens,
      reason: brokenBy ?? 'The vendor did not say what the answer used',
    }
  }

  #readText(line: string): void {
    const text = line.startsWith('data:') ? line.slice(5) : line
    if (!text.includes('"usage"')) return
    try {
      const said = JSON.parse(text) as (Said & { message?: Said; response?: Said }) | null
      if (said?.message?.usage) this.#take(said.message.usage)
      for (const usage of [said?.usage, said?.response?.usage]) {
        if (!usage) continue
        this.#take(usage)
        this.#isFinal = true
      }
    } catch {
      // Not ours to judge: the answer passes on as it is.
    }
  }

  #take(usage: Counts): void {
    this.#isSeen = true
    const details = ['prompt_tokens_details', 'input_tokens_details'].map((name) => usage[name])
    for (const counts of [usage, ...details])
      for (const [name, value] of Object.entries((counts ?? {}) as Counts))
        if (typeof value === 'number')
          this.#most.set(name, Math.max(this.#most.get(name) ?? 0, value))
  }

  /** Anthropic counts what it read from or wrote to its cache apart; others count it as part of the prompt. */
  #tokens(): StepTokens {
    const most = (...names: string[]) => Math.max(...names.map((name) => this.#most.get(name) ?? 0))
    const cacheRead = most('cache_read_input_tokens', 'cached_tokens')
    const cacheWrite = most('cache_creation_input_tokens')
    const all = most('input_tokens', 'prompt_tokens')
    const input = this.#provider === 'anthropic' ? all : Math.max(0, all - cacheRead - cacheWrite)
    // Thinking is part of it.
    const output = most('output_tokens', 'completion_tokens')
    return { input, output, reasoning: 0, cacheRead, cacheWrite }
  }
}
