import type { SandboxSpec } from '../../../src/core/ports.ts'
import type { AgentNotes } from './agent.ts'

/** Thrown when something has happened that must never happen. */
export class Violation extends Error {
  readonly rule: string

  constructor(rule: string, detail: string) {
    super(`${rule}: ${detail}`)
    this.rule = rule
  }
}

/** What really happened, written down where it happened: invariants compare it with what the actors say. */
export class Notes {
  /** Runs of a tool by operation. */
  readonly effects = new Map<string, { tool: string; runs: number }>()
  /** The turn in which a question was asked. */
  readonly askedIn = new Map<string, string>()
  /** By session and generation: the last event that an agent has put on its disk. */
  readonly told = new Map<string, number>()
  /** Tool calls that an organisation's sessions may make, if it was said before there were any. */
  readonly budgets = new Map<string, number>()
  /** That were started, by session. */
  readonly operations: [sessionId: string, operationId: string][] = []
  readonly refusals: string[] = []
  /** What a stranger was given. */
  readonly leaks: string[] = []
  /** Turns by the prompts that their sandboxes got. */
  readonly #turnOf = new Map<string, string>()
  readonly #overlaps: string[] = []
  evidence = 0

  effect(tool: string, operationId: string): void {
    const known = this.effects.get(operationId) ?? { tool, runs: 0 }
    known.runs += 1
    this.effects.set(operationId, known)
  }

  get overlaps(): readonly string[] {
    return this.#overlaps
  }

  of({ sessionId, generation }: SandboxSpec, askId: () => string): AgentNotes {
    const sandbox = `${sessionId}.${generation}`
    return {
      askId: () => `ask_${askId()}`,
      asked: (id, messageId) => {
        const turn = this.#turnOf.get(messageId.replace(/_a\d+$/, ''))
        if (turn !== undefined) this.askedIn.set(id, turn)
      },
      told: (seq) => void this.told.set(sandbox, Math.max(seq, this.told.get(sandbox) ?? 0)),
      prompted: (messageId, turnId) => void this.#turnOf.set(messageId, turnId),
      overlap: (running, coming) => {
        const turns = [running, coming].map((message) => this.#turnOf.get(message))
        if (turns[0] !== turns[1]) this.#overlaps.push(turns.join(' and '))
      },
      ran: () => undefined,
      attempted: (attemptId) => this.effect('attempt', attemptId),
      evidence: () => `evidence ${this.evidence % 2}`,
    }
  }
}
