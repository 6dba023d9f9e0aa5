import { AppError } from '../../contract/error.ts'
import type { CommandBody, CommandKind, CommandResult } from '../../contract/link.ts'
import { addCommand, loadCommand } from './commands.ts'
import type { Kernel } from './kernel.ts'

const patienceMs = 100_000

/** Asks the agent and waits for its result. */
export class CommandDesk {
  readonly #kernel: Kernel
  readonly #waiting = new Map<string, Set<() => void>>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Asked again under one id, it is still one command. */
  async ask<K extends CommandKind>(
    kind: K,
    id: string,
    body: CommandBody<K>,
  ): Promise<CommandResult<K>> {
    const { generation } = this.#kernel.session()
    this.#kernel.commit((sql, now) => addCommand(sql, now, { id, generation, kind, body }))
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

  /** Its result has come. */
  wake(id: string): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    for (const resolve of waiting ?? []) resolve()
  }

  /** Commands were dropped: whoever waits finds out. */
  wakeAll(): void {
    for (const id of [...this.#waiting.keys()]) this.wake(id)
  }
}
