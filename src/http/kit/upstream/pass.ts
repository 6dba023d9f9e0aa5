import type { Redactor } from '../../../core/redaction/redaction.ts'
import { answerHeaders } from '../model/stream.ts'

/**
 * What lies between a sandbox and a server whose secret the control plane adds: which headers pass, and an answer in
 * which the secret is nowhere. Bytes pass as they come; only where a secret's value is found they are replaced by its
 * name. Called by routes/upstreams.ts alone.
 */

/** Belong to one connection, name us or our caller, or are credentials that only the control plane gives. */
const notSent =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|host|content-length|accept-encoding|authorization|cookie|forwarded|via|x-forwarded-.*|x-real-ip|cf-.*|cdn-loop|x-gantry-.*|x-request-id)$/

export function sentHeaders(
  given: Headers,
  added: readonly [name: string, value: string][],
): Headers {
  const named = (given.get('connection') ?? '').split(',').map((name) => name.trim().toLowerCase())
  const sent = new Headers()
  given.forEach((value, name) => {
    if (!notSent.test(name) && !named.includes(name)) sent.append(name, value)
  })
  // What is compressed in any other way could not be searched.
  sent.set('accept-encoding', 'gzip')
  for (const [name, value] of added) sent.set(name, value)
  return sent
}

/** Whether the runtime's fetch has decoded it. */
export const isReadable = (headers: Headers): boolean =>
  ['', 'identity', 'gzip', 'br'].includes((headers.get('content-encoding') ?? '').toLowerCase())

export function shownHeaders(headers: Headers, redactor: Redactor): Headers {
  const shown = new Headers()
  answerHeaders(headers).forEach((value, name) => {
    if (name !== 'strict-transport-security' && name !== 'alt-svc')
      shown.append(name, redactor.redactText(value))
  })
  return shown
}

export interface Passing {
  silenceMs: number
  longestMs: number
  maxBytes: number
  now: () => number
  /** Ends the server's side. */
  upstream: AbortController
  onEnd: (bytes: number) => void
}

/** Cut off if it is silent, goes on for too long or is too large; ends the server if the reader leaves. */
export function redactedBody(
  body: ReadableStream<Uint8Array>,
  redactor: Redactor,
  { silenceMs, longestMs, maxBytes, now, upstream, onEnd }: Passing,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const stream = redactor.stream()
  const until = now() + longestMs
  let bytes = 0
  let isTold = false
  const end = () => {
    if (!isTold) onEnd(bytes)
    isTold = true
  }
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const timer = setTimeout(() => upstream.abort(), silenceMs)
      try {
        for (;;) {
          const { done, value } = await reader.read()
          bytes += value?.length ?? 0
          if (bytes > maxBytes || now() > until) throw new Error('The answer does not end')
          const text = done ? stream.flush() : stream.push(binaryOf(value))
          if (text !== '') controller.enqueue(bytesOf(text))
          if (done) {
            end()
            return controller.close()
          }
          // What may still become a value is held back: without a piece nobody would pull again.
          if (text !== '') return
        }
      } catch (error) {
        upstream.abort()
        end()
        throw error
      } finally {
        clearTimeout(timer)
      }
    },
    async cancel(reason) {
      end()
      upstream.abort()
      await reader.cancel(reason).catch(() => undefined)
    },
  })
}

const pieceLength = 8192

/** One character per byte: the redactor reads texts, and a value that can be in a header is ASCII. */
function binaryOf(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += pieceLength)
    text += String.fromCharCode(...bytes.subarray(at, at + pieceLength))
  return text
}

function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at)
  return bytes
}
