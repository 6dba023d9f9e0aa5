// Turns OpenCode's stream into the events of one turn. The end of each part (a text, a tool, a model step) is told
// exactly once, also if the stream repeats it or the agent was restarted; deltas are collected and told a few times per
// second. The working turn owns it, and at the end gives it OpenCode's own list of messages to find what the stream has
// missed.

import { createHash } from 'node:crypto'
import { maxDeltasPerSecond } from '../../src/contract/agent-events.ts'
import type { EventData } from '../../src/contract/events.ts'
import { isMutatingTool } from '../../src/contract/evidence-paths.ts'
import { historyRecordText } from '../evidence/history-rows.ts'
import type { ToolPart } from '../gate/gate.ts'
import type { OpenCodeEvent } from '../opencode/opencode.ts'
import { shorten } from '../shorten.ts'
import type { Emit, ToldParts } from '../memory/spool.ts'
import type { Message, Part } from '../opencode/transcript.ts'

interface TellerOptions {
  turnId: string
  /** OpenCode's session; sub-agents have sessions below it. Whatever runs beside them is told as well. */
  rootSession: string
  /** When the turn began. A tool that began later is told, also of a message that the stream has not told. */
  since: number
  emit: Emit
  /** Who works in a session of OpenCode. */
  agentOf?: (sessionId: string) => { agent?: string }
  /** What was told before a restart of the agent. */
  told?: ToldParts
  onTool: (part: ToolPart, state: NonNullable<Part['state']>) => void
}

/** What is no name of a tree is none. */
const treeOf = ({ snapshot }: Part): string | null =>
  snapshot !== undefined && /^[0-9a-f]{40}([0-9a-f]{24})?$/.test(snapshot) ? snapshot : null

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

const flushEveryMs = 1000 / maxDeltasPerSecond

interface PendingDelta {
  data: EventData<'message.delta'>
  sentAt: number
}

export class Teller {
  readonly #options: TellerOptions
  readonly #told: Set<string>
  readonly #started: Set<string>
  readonly #sessions: Set<string>
  readonly #assistantMessages = new Set<string>()
  readonly #deltas = new Map<string, PendingDelta>()
  /** The tree with which the step of a message began. */
  readonly #stepStarts = new Map<string, string | null>()
  readonly #now: () => number

  constructor(options: TellerOptions, now: () => number = Date.now) {
    this.#options = options
    this.#told = new Set(options.told?.ended)
    this.#started = new Set(options.told?.started)
    this.#sessions = new Set([options.rootSession])
    this.#now = now
  }

  get sessions(): ReadonlySet<string> {
    return this.#sessions
  }

  /** A tool has started and not ended, as far as the stream has told. */
  get isAtTool(): boolean {
    return [...this.#started].some((partId) => !this.#told.has(partId))
  }

  hear(event: OpenCodeEvent): void {
    const { properties } = event
    if (event.type === 'session.created' || event.type === 'session.updated') {
      const info = properties['info'] as { id?: string; parentID?: string } | undefined
      if (info?.id && info.parentID && this.#sessions.has(info.parentID))
        this.#sessions.add(info.id)
    } else if (event.type === 'message.updated') {
      const info = properties['info'] as Message['info']
      if (info.role === 'assistant' && this.#isOfTurn(info)) this.#assistantMessages.add(info.id)
    } else if (event.type === 'message.part.updated') {
      const part = properties['part'] as Part
      if (this.#assistantMessages.has(part.messageID) || this.#isNewTool(part)) this.#hearPart(part)
    } else if (event.type === 'message.part.delta') {
      this.#hearDelta(properties as unknown as Delta)
    }
  }

  /** In a session that is not the turn's there may be messages from before it. */
  #isOfTurn({ sessionID, time }: Message['info']): boolean {
    return this.#sessions.has(sessionID) || (time?.created ?? 0) >= this.#options.since
  }

  #isNewTool({ type, state }: Part): boolean {
    return type === 'tool' && (state?.time?.start ?? 0) >= this.#options.since
  }

  /** At the end, against OpenCode's own list: what the stream has missed, and what never reached an end. */
  reconcile(messages: Message[], interrupted: string): void {
    for (const { info, parts } of messages) {
      if (info.role !== 'assistant') continue
      for (const part of parts) {
        this.#hearPart(part)
        if (part.type === 'tool') this.#failUnfinished(part, interrupted)
        else if (part.type === 'text' || part.type === 'reasoning') this.#tellText(part)
      }
    }
  }

  /** To be called several times a second: sends deltas that waited. */
  tick(): void {
    for (const [partId, pending] of this.#deltas) {
      if (pending.data.delta === '' || this.#now() - pending.sentAt < flushEveryMs) continue
      this.#options.emit('message.delta', shorten(pending.data).value)
      this.#deltas.set(partId, { data: { ...pending.data, delta: '' }, sentAt: this.#now() })
    }
  }

  #hearPart(part: Part): void {
    if (part.type === 'tool') this.#hearTool(part)
    else if (part.type === 'step-start') this.#stepStarts.set(part.messageID, treeOf(part))
    else if (part.type === 'step-finish') this.#once(part, () => this.#tellModelStep(part))
    else if ((part.type === 'text' || part.type === 'reasoning') && part.time?.end !== undefined)
      this.#tellText(part)
  }

  #hearDelta(delta: Delta): void {
    if (!this.#assistantMessages.has(delta.messageID) || this.#told.has(delta.partID)) return
    const pending = this.#deltas.get(delta.partID)
    const data = {
      turnId: this.#options.turnId,
      sessionId: delta.sessionID,
      messageId: delta.messageID,
      partId: delta.partID,
      field: delta.field,
      delta: (pending?.data.delta ?? '') + delta.delta,
    }
    this.#deltas.set(delta.partID, { data, sentAt: pending?.sentAt ?? 0 })
    this.tick()
  }

  #tellText(part: Part): void {
    const text = part.text ?? ''
    this.#once(part, () => {
      if (text === '') return
      this.#options.emit(
        'message.text',
        shorten({ ...this.#names(part), text, reasoning: part.type === 'reasoning' }).value,
      )
    })
  }

  #hearTool(part: Part): void {
    const state = part.state
    if (!state || state.status === 'pending' || this.#told.has(part.id)) return
    const call = this.#call(part)
    this.#options.onTool({ ...call, sessionID: part.sessionID }, state)
    if (!this.#started.has(part.id)) {
      this.#started.add(part.id)
      this.#options.emit('tool.started', shortCall(call))
    }
    if (state.status === 'completed') {
      this.#once(part, () => {
        const whole = { ...call, title: state.title ?? '', output: state.output ?? '' }
        const { value, shortened } = shorten(whole)
        const truncated = shortened || state.metadata?.truncated === true
        const durationMs = durationOf(state)
        const ended = {
          ...{ ...value, ...cutInput(value, call), truncated, durationMs },
          ...(isMutatingTool(call.tool) && { recordHash: sha256(historyRecordText(state)) }),
        }
        this.#options.emit('tool.completed', ended)
      })
    } else if (state.status === 'error') {
      this.#once(part, () => this.#tellFailure(part, state.error ?? 'Failed'))
    }
  }

  #failUnfinished(part: Part, reason: string): void {
    this.#once(part, () => this.#tellFailure(part, reason))
  }

  #tellFailure(part: Part, error: string): void {
    const durationMs = part.state ? durationOf(part.state) : 0
    this.#options.emit('tool.failed', shortCall({ ...this.#call(part), error, durationMs }))
  }

  #tellModelStep(part: Part): void {
    const { tokens } = part
    this.#options.emit('step.finished', {
      ...this.#names(part),
      reason: part.reason ?? '',
      tokens: {
        input: tokens?.input ?? 0,
        output: tokens?.output ?? 0,
        reasoning: tokens?.reasoning ?? 0,
        cacheRead: tokens?.cache?.read ?? 0,
        cacheWrite: tokens?.cache?.write ?? 0,
      },
      cost: part.cost ?? 0,
      snapshots: { ...this.#startOf(part), to: treeOf(part) },
    })
  }

  #startOf({ messageID }: Part): { from?: string | null } {
    const from = this.#stepStarts.get(messageID)
    return from === undefined ? {} : { from }
  }

  #once(part: Part, tell: () => void): void {
    if (this.#told.has(part.id)) return
    this.#told.add(part.id)
    this.#deltas.delete(part.id)
    tell()
  }

  #names(part: Part) {
    return {
      turnId: this.#options.turnId,
      sessionId: part.sessionID,
      messageId: part.messageID,
      partId: part.id,
    }
  }

  #call(part: Part) {
    return {
      ...this.#names(part),
      tool: part.tool ?? '',
      callId: part.callID ?? '',
      input: part.state?.input ?? null,
      ...this.#options.agentOf?.(part.sessionID),
    }
  }
}

/** Says so if the input is not whole any more: then it cannot be compared with another record of it. */
function shortCall<T extends { input: unknown }>(call: T): T & { shortened?: boolean } {
  const { value } = shorten(call)
  return { ...value, ...cutInput(value, call) }
}

const cutInput = (shown: { input: unknown }, { input }: { input: unknown }) =>
  shown.input === input || JSON.stringify(shown.input) === JSON.stringify(input)
    ? {}
    : { shortened: true }

/** Of the session that an event is about, if it is about one. */
export function tellerSession({ properties }: OpenCodeEvent): string | undefined {
  const { sessionID, info, part } = properties as {
    sessionID?: string
    info?: { id?: string; sessionID?: string }
    part?: { sessionID?: string }
  }
  return sessionID ?? part?.sessionID ?? info?.sessionID ?? info?.id
}

interface Delta {
  sessionID: string
  messageID: string
  partID: string
  field: string
  delta: string
}

function durationOf(state: NonNullable<Part['state']>): number {
  const { start, end } = state.time ?? {}
  return start !== undefined && end !== undefined ? Math.max(0, end - start) : 0
}
