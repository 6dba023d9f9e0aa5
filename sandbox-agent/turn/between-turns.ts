// Between turns no tool may run, in any session of OpenCode. The gate is closed then, but whoever knows OpenCode's
// password can have it run a command without a question. A tool part that begins then and did not ask is reported, and
// OpenCode is killed. A part that is still running when the next turn begins is watched to its end. Turns owns it.

import type { EventData } from '../../src/contract/events.ts'
import type { Gate, ToolPart } from '../gate/gate.ts'
import { log } from '../log.ts'
import type { Emit } from '../memory/spool.ts'
import type { OpenCodeEvent } from '../opencode/opencode.ts'
import type { Part } from '../opencode/transcript.ts'
import { shorten } from '../shorten.ts'
import { askWithinMs, checkToolRan } from './tool-check.ts'

interface BetweenTurnsOptions {
  emit: Emit
  gate: Gate
  killOpenCode: () => Promise<void>
}

type ToolState = NonNullable<Part['state']>

export class BetweenTurns {
  readonly #options: BetweenTurnsOptions
  /** Parts that have begun between turns and have not asked yet. */
  readonly #unasked = new Map<string, ToolPart>()
  readonly #reported = new Set<string>()
  /** Of the turn that ran last, or runs: it is the nearest thing that a bypass can be told of. */
  #turnId = ''
  #since = Date.now()

  constructor(options: BetweenTurnsOptions) {
    this.#options = options
  }

  /** Before the gate opens and forgets what was asked. */
  turnBegins(turnId: string): void {
    for (const [id, part] of this.#unasked)
      if (this.#options.gate.wasAsked(part)) this.#unasked.delete(id)
    this.#turnId = turnId
  }

  turnEnded(): void {
    this.#since = Date.now()
  }

  hear(event: OpenCodeEvent, isIdle: boolean): void {
    if (event.type !== 'message.part.updated') return
    const part = event.properties['part'] as Part
    const { state } = part
    if (part.type !== 'tool' || !state || state.status === 'pending') return
    // What began in a turn is that turn's, also if its end comes late.
    const beganHere = isIdle && (state.time?.start ?? 0) >= this.#since
    if (beganHere || this.#unasked.has(part.id)) this.#see(toolPartOf(part), state)
  }

  #see(part: ToolPart, state: ToolState): void {
    const { gate } = this.#options
    if (state.status === 'completed') return gate.covers(part) ? undefined : this.#report(part)
    if (state.status === 'error') {
      if (checkToolRan(state) && !gate.wasAsked(part)) this.#report(part)
      return void this.#unasked.delete(part.partId)
    }
    if (this.#unasked.has(part.partId)) return
    this.#unasked.set(part.partId, part)
    setTimeout(() => this.#reportUnasked(part), askWithinMs).unref()
  }

  #reportUnasked(part: ToolPart): void {
    if (this.#unasked.has(part.partId) && !this.#options.gate.wasAsked(part)) this.#report(part)
  }

  #report({ sessionID, ...call }: ToolPart): void {
    this.#unasked.delete(call.partId)
    if (this.#reported.has(call.partId)) return
    this.#reported.add(call.partId)
    log('gate.bypassed', { tool: call.tool, callId: call.callId, sessionID })
    const told = { ...call, turnId: this.#turnId, sessionId: sessionID }
    this.#options.emit('gate.bypassed', shorten<EventData<'gate.bypassed'>>(told).value)
    void this.#options.killOpenCode()
  }
}

const toolPartOf = (part: Part): ToolPart => ({
  partId: part.id,
  messageId: part.messageID,
  sessionID: part.sessionID,
  tool: part.tool ?? '',
  callId: part.callID ?? '',
  input: part.state?.input ?? null,
})
