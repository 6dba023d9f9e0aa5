import type { Injection } from '../../../contract/secret.ts'
import { createRedactor, type Redactor } from '../../../core/redaction/redaction.ts'
import type { UpstreamCredential } from '../../../core/session/upstreams/upstreams.ts'
import { modelStreamAnswerHeaders } from '../model/stream.ts'

/**
 * What lies between a sandbox and a server whose secret the control plane adds: which headers pass, and an answer in
 * which the secret is nowhere. Bytes pass as they come; only where a secret's value is found they are replaced by its
 * name. Called by routes/upstreams.ts alone.
 */

/** Belong to one connection, name us or our caller, or are credentials that only the control plane gives. */
const notSent =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|host|content-length|accept-encoding|authorization|cookie|forwarded|via|x-forwarded-.*|x-real-ip|cf-.*|cdn-loop|x-gantry-.*|x-request-id)$/

/** If two secrets want the same header, the first counts. */
export function upstreamCredentialHeaders(
  credentials: readonly UpstreamCredential[],
): Map<string, string> {
  const headers = new Map<string, string>()
  for (const { value, inject } of credentials)
    if (!headers.has(inject.header)) headers.set(inject.header, headerValue(inject, value))
  return headers
}

function headerValue({ header, scheme, user }: Injection, value: string): string {
  const how = scheme ?? (header === 'authorization' ? 'bearer' : 'plain')
  if (how === 'plain') return value
  if (how === 'bearer') return `Bearer ${value}`
  return `Basic ${btoa(`${user ?? 'x-access-token'}:${value}`)}`
}

export function upstreamSentHeaders(given: Headers, added: ReadonlyMap<string, string>): Headers {
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

/** Of what was given and of what was sent: a server may show either. */
export function upstreamRedactor(
  credentials: readonly UpstreamCredential[],
  sent: ReadonlyMap<string, string>,
): Redactor {
  const shown = credentials.map(({ name, inject }) => ({
    name,
    value: sent.get(inject.header) ?? '',
  }))
  return createRedactor([...credentials, ...shown])
}

/** Whether the runtime's fetch has decoded it. */
export const isReadable = (headers: Headers): boolean =>
  ['', 'identity', 'gzip', 'br'].includes((headers.get('content-encoding') ?? '').toLowerCase())

export function upstreamShownHeaders(headers: Headers, redactor: Redactor): Headers {
  const shown = new Headers()
  modelStreamAnswerHeaders(headers).forEach((value, name) => {
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
export function upstreamBody(
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
