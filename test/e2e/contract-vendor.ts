import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface Vendor {
  url: string
  /** What the answers said, added up. */
  usage(): { requests: number; inputTokens: number; outputTokens: number }
  /** The credentials that came, each once. */
  credentials(): string[]
  /** Answers so from now on; null: asks the model again. */
  refuseWith(refusal: Refusal | null): void
  close(): void
}

interface Refusal {
  status: number
  body: string
}
interface Usage {
  prompt_tokens: number
  completion_tokens: number
}

/** Stands between the control plane and the scripted model, and reads what the model says it used. */
export async function startVendor(target: () => string): Promise<Vendor> {
  const credentials = new Set<string>()
  const said: Usage[] = []
  let refusal: Refusal | null = null
  const server = createServer((incoming, outgoing) => {
    serve(incoming, outgoing).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    usage: () => ({
      requests: said.length,
      inputTokens: said.reduce((sum, each) => sum + each.prompt_tokens, 0),
      outputTokens: said.reduce((sum, each) => sum + each.completion_tokens, 0),
    }),
    credentials: () => [...credentials],
    refuseWith(given) {
      refusal = given
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const authorization = incoming.headers.authorization ?? ''
    credentials.add(authorization)
    const body = await text(incoming)
    if (refusal === null) return pass(incoming.url ?? '', authorization, body, outgoing)
    outgoing.writeHead(refusal.status, { 'content-type': 'application/json', 'x-vendor': 'v1' })
    outgoing.end(refusal.body)
  }

  async function pass(
    path: string,
    authorization: string,
    body: string,
    outgoing: ServerResponse,
  ): Promise<void> {
    const headers = { authorization, 'content-type': 'application/json' }
    const url = `${target()}${path.replace(/^\/v1/, '')}`
    const answer = await fetch(url, { method: 'POST', headers, body })
    outgoing.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    let whole = ''
    for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      whole += piece
      outgoing.write(piece)
    }
    const usage = /"usage":(\{[^}]*\})/.exec(whole)?.[1]
    if (usage !== undefined) said.push(JSON.parse(usage) as Usage)
    outgoing.end()
  }
}
