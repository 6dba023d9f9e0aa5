import { AppError } from '../../../contract/error.ts'
import type { CommandBody, CommandKind, CommandResult } from '../../../contract/link.ts'
import type { Room } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { addCommand, finishedCommands, loadCommand, openCommands } from './rows.ts'

const patienceMs = 100_000

/**
 * Asks the agent and waits for its result. A command is a row first: it is sent as soon as an agent is connected, and
 * again on every new link, until its result has come. Calls, operations, env values and diffs ask by it.
 */
export class Commands implements Room {
  readonly #kernel: SessionKernel
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #sent = new Set<string>()
  /** Whether there may be a command to send that nobody has looked for yet. */
  #mayBeUnsent = true

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** Asked again under one id, it is still one command. */
  async ask<K extends CommandKind>(
    kind: K,
    id: string,
    body: CommandBody<K>,
    askedOf?: number,
  ): Promise<CommandResult<K>> {
    const { generation } = this.#kernel.session()
    // What was meant for one sandbox is not asked of the next.
    if (askedOf !== undefined && askedOf !== generation)
      throw new AppError('sandbox_unavailable', 'The sandbox has been replaced')
    this.#kernel.commit((sql, now) => addCommand(sql, now, { id, generation, kind, body }))
    return this.answer(kind, id)
  }

  /** Of a command that somebody has added. */
  async answer<K extends CommandKind>(_: K, id: string): Promise<CommandResult<K>> {
    await this.#kernel.crash('command.added')
    await Promise.race([this.#done(id), this.#kernel.ports.host.sleep(patienceMs)])
    const row = loadCommand(this.#kernel.ports.sql, id)
    if (row?.state !== 'done')
      throw new AppError('sandbox_unavailable', 'The sandbox did not answer in time')
    const result = JSON.parse(row.result ?? 'null') as unknown
    if (row.ok === 1) return result as CommandResult<K>
    throw new AppError('unprocessable', String(result))
  }

  async #done(id: string): Promise<void> {
    while (loadCommand(this.#kernel.ports.sql, id)?.state === 'open') {
      await new Promise<void>((resolve) => {
        const set = this.#waiting.get(id) ?? new Set()
        this.#waiting.set(id, set.add(resolve))
      })
    }
  }

  /** A new link knows nothing of what was sent on the old one. */
  readonly linkOpened = (): void => {
    this.#sent.clear()
    this.#mayBeUnsent = true
  }

  readonly written = (tables: Written): void => {
    if (tables.has('commands')) {
      this.#mayBeUnsent = true
      this.#wakeFinished()
    }
    if (this.#mayBeUnsent) this.#send()
  }

  #send(): void {
    if (!this.#kernel.created || !this.#kernel.ports.host.agentConnected()) return
    for (const command of openCommands(this.#kernel.ports.sql)) {
      if (this.#sent.has(command.id)) continue
      const body = JSON.parse(command.body) as Record<string, unknown>
      if (!this.#kernel.send({ t: 'command', id: command.id, kind: command.kind, body })) return
      this.#sent.add(command.id)
    }
    this.#mayBeUnsent = false
  }

  /** By their results, or because they were dropped: whoever waits finds out. */
  #wakeFinished(): void {
    if (this.#waiting.size === 0) return
    for (const id of finishedCommands(this.#kernel.ports.sql, [...this.#waiting.keys()])) {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      for (const resolve of waiting ?? []) resolve()
    }
  }
}
