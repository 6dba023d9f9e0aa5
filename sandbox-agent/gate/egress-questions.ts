import { randomBytes } from 'node:crypto'
import { egressTool } from '../../src/contract/ask.ts'
import { idAlphabet } from '../../src/contract/ids.ts'
import type { EgressOptions } from '../enclosure/egress.ts'
import type { Gate } from './gate.ts'

/** How long a connection waits for a person. */
const holdMs = 25_000
/** A program that names a new host each time must not bury people in questions. */
const maxPlaces = 500
const maxWaiting = 32

/**
 * The proxy's questions: one per host and port (and what is added there) and turn, however many connections want to know. A later try after an
 * approval finds the same question answered. Beyond so many places in a turn, or questions that wait for an answer, further ones
 * are refused without a question.
 */
export function egressQuestions(
  gate: Pick<Gate, 'ask' | 'turnId'>,
  waitMs = holdMs,
): EgressOptions['decide'] {
  let turnId: string | null = null
  const asked = new Map<string, string>()
  const waiting = new Set<string>()
  return async (host, port, secrets = []) => {
    if (gate.turnId !== turnId) {
      asked.clear()
      waiting.clear()
    }
    turnId = gate.turnId
    const key = [`${host}:${port}`, ...secrets].join(' ')
    if (!asked.has(key) && (asked.size >= maxPlaces || waiting.size >= maxWaiting))
      return { allow: false, reason: 'Too many hosts are asked for in this turn' }
    const askId = asked.get(key) ?? newAskId()
    asked.set(key, askId)
    waiting.add(askId)
    const input = { host, port, ...(secrets.length > 0 && { secrets }) }
    const question = { askId, tool: egressTool, callId: '', sessionID: '', input }
    const answer = await gate.ask(question, waitMs)
    if (answer) waiting.delete(askId)
    return answer && { allow: answer.decision === 'allow', reason: answer.reason }
  }
}

const newAskId = () => `ask_${[...randomBytes(20)].map((byte) => idAlphabet[byte % 32]).join('')}`
