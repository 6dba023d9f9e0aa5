// Carries out the commands of the control plane, each command id once. A command that comes again gets the stored
// result; one whose result was acknowledged before is refused. A command that fails is a result, too. The uplink
// delivers commands here.

import {
  type CommandKind,
  type CommandBody,
  type CommandResult,
  commandKinds,
} from '../src/contract/link.ts'
import { crashPoint } from './crash-points.ts'
import { log, messageOf } from './log.ts'
import type { Result, Results } from './memory/memory.ts'

export type Executors = { [K in CommandKind]: (body: CommandBody<K>) => Promise<CommandResult<K>> }

export class Commands {
  readonly #executors: Executors
  readonly #results: Results
  readonly #sendResult: (id: string, result: Result) => void
  readonly #running = new Set<string>()

  constructor(
    executors: Executors,
    results: Results,
    sendResult: (id: string, result: Result) => void,
  ) {
    this.#executors = executors
    this.#results = results
    this.#sendResult = sendResult
  }

  async receive(id: string, kind: CommandKind, body: unknown): Promise<void> {
    if (this.#running.has(id)) return
    const known = this.#results.get(id)
    if (known) return this.#sendResult(id, known)
    // Acknowledged, and yet asked again: the control plane has lost its record. It cannot be carried out twice.
    if (this.#results.isDone(id))
      return this.#sendResult(id, { ok: false, error: 'Already carried out' })
    this.#running.add(id)
    try {
      await crashPoint('command.received')
      const result = await this.#execute(kind, body)
      await crashPoint('command.executed')
      this.#results.add(id, result)
    } finally {
      this.#running.delete(id)
    }
    await crashPoint('command.recorded')
    this.#sendResult(id, this.#results.get(id) ?? { ok: false, error: 'The result is lost' })
  }

  async #execute(kind: CommandKind, body: unknown): Promise<Result> {
    try {
      const execute = this.#executors[kind] as (body: unknown) => Promise<Record<string, unknown>>
      return { ok: true, data: await execute(commandKinds[kind].body.parse(body)) }
    } catch (error) {
      log('command.failed', { kind, reason: messageOf(error) })
      return { ok: false, error: messageOf(error).slice(0, 4000) }
    }
  }
}
