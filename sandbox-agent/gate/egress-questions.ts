import { randomBytes } from 'node:crypto'
import { egressTool } from '../../src/contract/ask.ts'
import { idAlphabet } from '../../src/contract/ids.ts'
import type { EgressOptions } from '../enclosure/egress.ts'
import type { Gate } from './gate.ts'

/** How long a connection waits for a person. */
const holdMs = 25_000

/**
 * The proxy's questions: one per host and port (and what is added there) and turn, however many connections want to know. A later try after an
 * approval finds the same question answered.
 */
export function egressQuestions(
  gate: Pick<Gate, 'ask' | 'turnId'>,
  waitMs = holdMs,
): EgressOptions['decide'] {
  let turnId: string | null = null
  const asked = new Map<string, string>()
  return async (host, port, secrets = []) => {
    if (gate.turnId !== turnId) asked.clear()
    turnId = gate.turnId
    const key = [`${host}:${port}`, ...secrets].join(' ')
    const askId = asked.get(key) ?? newAskId()
    asked.set(key, askId)
    const input = { host, port, ...(secrets.length > 0 && { secrets }) }
    const question = { askId, tool: egressTool, callId: '', sessionID: '', input }
    const answer = await gate.ask(question, waitMs)
    return answer && { allow: answer.decision === 'allow', reason: answer.reason }
  }
}

const newAskId = () => `ask_${[...randomBytes(20)].map((byte) => idAlphabet[byte % 32]).join('')}`
