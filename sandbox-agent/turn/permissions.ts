// OpenCode's own questions about permissions, in an attempt of an eval run. They are on only there: elsewhere the gate is
// asked before every tool and OpenCode has nothing to ask. Each is passed to the gate, which the control plane answers at
// once by the target of the run, and OpenCode is told. The agent passes it every event.

import { randomBytes } from 'node:crypto'
import { permissionTool } from '../../src/contract/ask.ts'
import { idAlphabet } from '../../src/contract/ids.ts'
import type { Gate } from '../gate/gate.ts'
import { log, messageOf } from '../log.ts'
import type { OpenCode, OpenCodeEvent } from '../opencode/opencode.ts'
import type { PermissionRule } from '../opencode/transcript.ts'

const rule = (permission: string, pattern = '*'): PermissionRule => ({
  permission,
  pattern,
  action: 'ask',
})

/** What OpenCode asks about by itself, unless it is told to allow everything. */
export const askingRules: readonly PermissionRule[] = [
  rule('doom_loop'),
  rule('external_directory'),
  rule('read', '*.env'),
  rule('read', '*.env.*'),
]

/** The gate answers at once; while the link is down it takes as long as the gate has patience. */
const waitMs = 60_000

interface Asked {
  id?: unknown
  sessionID?: unknown
  permission?: unknown
  patterns?: unknown
  metadata?: unknown
  tool?: { callID?: unknown }
}

export class Permissions {
  readonly #gate: Pick<Gate, 'ask'>
  readonly #opencode: () => Promise<Pick<OpenCode, 'request'>>
  readonly #asked = new Set<string>()

  constructor(gate: Pick<Gate, 'ask'>, opencode: () => Promise<Pick<OpenCode, 'request'>>) {
    this.#gate = gate
    this.#opencode = opencode
  }

  hear({ type, properties }: OpenCodeEvent): void {
    const { id } = properties as Asked
    if (type !== 'permission.asked' || typeof id !== 'string' || this.#asked.has(id)) return
    this.#asked.add(id)
    void this.#answer(id, properties as Asked).catch((error: unknown) =>
      log('permission.unanswered', { id, reason: messageOf(error) }),
    )
  }

  /** Without an answer it is refused: OpenCode would wait for ever. */
  async #answer(id: string, asked: Asked): Promise<void> {
    const { permission, patterns, metadata, sessionID, tool } = asked
    const answer = await this.#gate.ask(
      {
        askId: newAskId(),
        tool: permissionTool,
        callId: textOf(tool?.callID),
        sessionID: textOf(sessionID),
        input: { permission, patterns, metadata },
      },
      waitMs,
    )
    const reply = answer?.decision === 'allow' ? 'once' : 'reject'
    const opencode = await this.#opencode()
    await opencode.request('POST', `/permission/${encodeURIComponent(id)}/reply`, { reply })
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 100) : '')

const newAskId = () => `ask_${[...randomBytes(20)].map((byte) => idAlphabet[byte % 32]).join('')}`
