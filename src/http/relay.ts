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
