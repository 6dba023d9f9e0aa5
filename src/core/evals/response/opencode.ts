import type { EvalToolCall, ProviderResponse } from '../../../contract/eval-response.ts'

/**
 * What OpenCode did in one turn, as a provider response: ONE final assistant message with the text of the last answer and
 * every tool call of the turn in the order of their beginnings. Pure; who runs an attempt hands in either OpenCode's own
 * messages or the events of the session.
 */

/** A tool part of OpenCode, whatever stands around it. */
interface ToolState {
  status: string
  input?: unknown
  output?: unknown
  error?: unknown
  time?: { start?: number | undefined; end?: number | undefined } | undefined
}

/** As OpenCode lists them. */
export interface OpencodeMessage {
  info: { id: string; role: string; sessionID?: string }
  parts: readonly OpencodePart[]
}
export interface OpencodePart {
  id: string
  type: string
  text?: string | undefined
  synthetic?: boolean | undefined
  tool?: string | undefined
  callID?: string | undefined
  state?: ToolState | undefined
  cost?: number | undefined
  tokens?:
    | {
        input?: number | undefined
        output?: number | undefined
        reasoning?: number | undefined
        cache?: { read?: number | undefined; write?: number | undefined } | undefined
      }
    | undefined
}

type Tokens = Record<'input' | 'output' | 'cached', number>

/**
 * Collects what is heard of a turn, for the response of an attempt. The same part may come again and then replaces what
 * was known, so that hearing all of it twice gives the same response.
 */
class Turn {
  readonly #calls = new Map<string, EvalToolCall>()
  readonly #texts = new Map<string, Map<string, string>>()
  readonly #steps = new Map<string, { usage: Tokens; cost: number }>()

  text(messageId: string, partId: string, text: string): void {
    const message = this.#texts.get(messageId) ?? new Map<string, string>()
    this.#texts.set(messageId, message.set(partId, text))
  }

  call(key: string, call: EvalToolCall): void {
    this.#calls.set(key, call)
  }

  step(partId: string, usage: Tokens, cost: number): void {
    this.#steps.set(partId, { usage, cost })
  }

  response(durationMs: number | undefined): ProviderResponse {
    const steps = [...this.#steps.values()]
    const sum = (of: (step: (typeof steps)[number]) => number) =>
      steps.reduce((all, step) => all + of(step), 0)
    return {
      outputMessages: [
        { role: 'assistant', content: this.#answer(), toolCalls: [...this.#calls.values()] },
      ],
      ...(steps.length > 0 && {
        tokenUsage: {
          input: sum(({ usage }) => usage.input),
          output: sum(({ usage }) => usage.output),
          cached: sum(({ usage }) => usage.cached),
        },
        costUsd: sum(({ cost }) => cost),
      }),
      ...(durationMs !== undefined && { durationMs }),
    }
  }

  #answer(): string {
    const written = [...this.#texts.values()].map((parts) => [...parts.values()].filter(Boolean))
    return written.findLast((texts) => texts.length > 0)?.join('\n') ?? ''
  }
}

/** From OpenCode's messages of the turn. Reasoning is no content, and a synthetic text is not the model's. */
export function responseOfOpencodeMessages(
  messages: readonly OpencodeMessage[],
  durationMs?: number,
): ProviderResponse {
  const turn = new Turn()
  for (const { info, parts } of messages) {
    if (info.role !== 'assistant') continue
    for (const part of parts) {
      if (part.type === 'text' && part.synthetic !== true)
        turn.text(info.id, part.id, part.text ?? '')
      if (part.type === 'tool') turn.call(part.callID ?? part.id, callOfPart(part))
      if (part.type === 'step-finish') turn.step(part.id, usageOf(part.tokens), part.cost ?? 0)
    }
  }
  return turn.response(durationMs)
}

function callOfPart({ tool = '', callID, state }: OpencodePart): EvalToolCall {
  const { start, end } = state?.time ?? {}
  return {
    tool,
    ...(state?.input !== undefined && { input: state.input }),
    ...(state?.status === 'completed' && state.output !== undefined && { output: state.output }),
    ...(callID !== undefined && { id: callID }),
    ...errorOf(state),
    ...(start !== undefined && { timestamp: new Date(start).toISOString() }),
    ...(start !== undefined && end !== undefined && { durationMs: Math.max(0, end - start) }),
  }
}

function errorOf(state: ToolState | undefined): Pick<EvalToolCall, 'error'> {
  if (state?.status === 'completed') return {}
  if (state?.status === 'error')
    return { error: { kind: 'error', message: textOf(state.error, 'The tool failed') } }
  return unfinished(state?.status ?? 'pending')
}

const unfinished = (status: string): Pick<EvalToolCall, 'error'> => ({
  error: { kind: 'unfinished', message: `The call was still ${status} when the turn ended` },
})

const textOf = (given: unknown, otherwise: string): string =>
  given === undefined ? otherwise : typeof given === 'string' ? given : JSON.stringify(given)

/** What was thought is paid as output; both kinds of cache count as cached. */
const usageOf = (tokens: OpencodePart['tokens']): Tokens => ({
  input: tokens?.input ?? 0,
  output: (tokens?.output ?? 0) + (tokens?.reasoning ?? 0),
  cached: (tokens?.cache?.read ?? 0) + (tokens?.cache?.write ?? 0),
})

/** The events of a session that tell of a turn; others are passed over. */
export interface TurnEvent {
  kind: string
  data: unknown
}
interface PartData {
  sessionId: string
  messageId: string
  partId: string
}
type ToolData = PartData & {
  tool: string
  callId: string
  input?: unknown
  output?: string
  error?: string
  durationMs?: number
}

/** From the events of the session, in order. Sub-agents work in sessions of their own: their calls are inside of `task`. */
export function responseOfOpencodeEvents(
  events: readonly TurnEvent[],
  durationMs?: number,
): ProviderResponse {
  const turn = new Turn()
  let own: string | null = null
  for (const { kind, data } of events) {
    if (!/^(message\.text|tool\.|step\.finished)/.test(kind)) continue
    own ??= (data as PartData).sessionId
    if ((data as PartData).sessionId === own) hear(turn, kind, data as PartData)
  }
  return turn.response(durationMs)
}

function hear(turn: Turn, kind: string, data: PartData): void {
  if (kind === 'message.text') {
    const { text, reasoning } = data as PartData & { text: string; reasoning: boolean }
    if (!reasoning) turn.text(data.messageId, data.partId, text)
  } else if (kind === 'step.finished') {
    const { tokens, cost } = data as PartData & {
      tokens: Record<'input' | 'output' | 'reasoning' | 'cacheRead' | 'cacheWrite', number>
      cost: number
    }
    const { cacheRead: read, cacheWrite: write, ...rest } = tokens
    turn.step(data.partId, usageOf({ ...rest, cache: { read, write } }), cost)
  } else turn.call((data as ToolData).callId, callOfEvent(kind, data as ToolData))
}

function callOfEvent(kind: string, data: ToolData): EvalToolCall {
  return {
    tool: data.tool,
    ...(data.input !== undefined && { input: data.input }),
    ...(kind === 'tool.completed' && { output: data.output ?? '' }),
    id: data.callId,
    ...(kind === 'tool.failed' && {
      error: { kind: 'error' as const, message: data.error ?? 'The tool failed' },
    }),
    ...(kind === 'tool.started' && unfinished('running')),
    ...(data.durationMs !== undefined && { durationMs: data.durationMs }),
  }
}
