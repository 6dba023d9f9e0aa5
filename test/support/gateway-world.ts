import { canonicalJson } from '../../src/contract/canonical.ts'
import type { TokenCreated } from '../../src/contract/token.ts'

export interface ProxyRequest {
  method: string
  path: string
  headers: Record<string, string>
  body: Buffer
}
export interface ProxyAnswer {
  status: number
  headers: Record<string, string>
  text: string
}

/** A request for a tool, as far as it can be understood. */
export interface CallRequest {
  sessionId: string
  tool: string
  token: string | null
  claims: Claims | null
  /** Undefined if the body is no callback. */
  id: string | undefined
  args: string
  /** What came before under the same session, tool and id. */
  earlier: Entry | undefined
  repeat: Repeat | null
}
interface Claims {
  sub: string
  gen: number
  source: string
  exp: number
}
export interface Entry {
  spelling: string
  body: string
  args: string
  generation: number | undefined
  state: 'running' | 'cut' | 'answered'
  answer: ProxyAnswer | null
}
export type Repeat =
  | 'late'
  | 'next generation'
  | 'conflict'
  | 'alias'
  | 'cut'
  | 'concurrent'
  | 'reordered'
  | 'refused'
  | 'plain'

const callPath = /^\/proliferate\/([^/]+)\/tools\/([^/]+)$/
const actPath = /^\/v1\/sessions\/([^/]+)(?:\/(close|replace|tokens))?$/
const foldTool = (tool: string) => tool.replace('automation_complete', 'automation.complete')

/** What the proxy has seen go by: enough to break one rule and no other. */
export class GatewayWorld {
  readonly adminKey: string
  readonly #target: string
  readonly entries = new Map<string, Entry>()
  readonly closed = new Set<string>()
  readonly deleted = new Set<string>()
  readonly generations = new Map<string, number>()
  readonly issued = new Set<string>()
  readonly #notes = new Map<string, Map<string | number, number>>()

  constructor(target: string, adminKey: string) {
    this.#target = target
    this.adminKey = adminKey
  }

  generation(sessionId: string): number {
    return this.generations.get(sessionId) ?? 1
  }

  /** A token that opens the session's doors. */
  async goodToken(sessionId: string): Promise<string> {
    const answer = await fetch(`${this.#target}/v1/sessions/${sessionId}/tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.adminKey}`, 'content-type': 'application/json' },
      body: '{}',
    })
    return ((await answer.json()) as TokenCreated).token
  }

  /** What a fault remembers of a session, apart from other faults. */
  notes(fault: string, sessionId: string): Map<string | number, number> {
    const key = `${fault} ${sessionId}`
    const known = this.#notes.get(key) ?? new Map<string | number, number>()
    this.#notes.set(key, known)
    return known
  }

  /** The state changes that callers ask for. */
  observe({ method, path }: ProxyRequest, { status, text }: ProxyAnswer): void {
    const [, sessionId = '', act] = actPath.exec(path) ?? []
    if (status >= 300) return
    if (method === 'DELETE') this.deleted.add(sessionId)
    if (act === 'close') this.closed.add(sessionId)
    if (act === 'replace') this.generations.set(sessionId, this.generation(sessionId) + 1)
    if (act === 'tokens') this.issued.add((JSON.parse(text) as TokenCreated).token)
  }

  parseCall(request: ProxyRequest): CallRequest | null {
    const [, sessionId, tool] = callPath.exec(request.path) ?? []
    if (sessionId === undefined || tool === undefined) return null
    const token = tokenOf(request)
    const body = parse(request.body.toString()) as Record<string, unknown> | undefined
    const id = typeof body?.['tool_call_id'] === 'string' ? body['tool_call_id'] : undefined
    const args = canonicalJson(body?.['args'] ?? {})
    const claims = claimsOf(token)
    const earlier = this.entries.get(keyOf(sessionId, tool, id))
    const call = { sessionId, tool, token, claims, id, args, earlier }
    return { ...call, repeat: this.#repeatOf(call, request.body.toString()) }
  }

  #repeatOf(call: Omit<CallRequest, 'repeat'>, body: string): Repeat | null {
    const { earlier } = call
    if (!earlier) return null
    if (this.closed.has(call.sessionId)) return 'late'
    if (earlier.generation !== call.claims?.gen) return 'next generation'
    if (earlier.args !== call.args) return 'conflict'
    if (earlier.spelling !== call.tool) return 'alias'
    if (earlier.state === 'cut') return 'cut'
    if (earlier.state === 'running') return 'concurrent'
    if (earlier.body !== body) return 'reordered'
    return (parse(earlier.answer?.text ?? '') as { success?: boolean })?.success
      ? 'plain'
      : 'refused'
  }

  /** Keeps the first one; null for what is no first call. */
  begin(call: CallRequest, body: string): Entry | null {
    if (call.id === undefined || call.earlier) return null
    const entry: Entry = {
      spelling: call.tool,
      body,
      args: call.args,
      generation: call.claims?.gen,
      state: 'running',
      answer: null,
    }
    this.entries.set(keyOf(call.sessionId, call.tool, call.id), entry)
    return entry
  }

  /** A call that was refused is no earlier call. */
  end(call: CallRequest, entry: Entry, answer: ProxyAnswer): void {
    entry.answer = answer
    if (entry.state === 'running') entry.state = 'answered'
    if (answer.status !== 200) this.entries.delete(keyOf(call.sessionId, call.tool, call.id))
  }
}

export const keyOf = (sessionId: string, tool: string, id: string | undefined) =>
  `${sessionId} ${foldTool(tool)} ${id}`

export function tokenOf({ headers }: Pick<ProxyRequest, 'headers'>): string | null {
  return headers['authorization']?.replace(/^Bearer /, '') ?? null
}

export function claimsOf(token: string | null): Claims | null {
  const text = Buffer.from(token?.split('.')[1] ?? '', 'base64url').toString()
  return (parse(text) as Claims | undefined) ?? null
}

export function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
