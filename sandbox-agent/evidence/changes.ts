// What the workspace changed since the session began: as a diff for people, and as the patch of each turn. The base is
// remembered once per sandbox, and a sandbox that goes on with a session's files counts from where that session began.
// The agent asks for the diff; turns take patch and diff at their end.

import type { EventData } from '../../src/contract/events.ts'
import type { DiffReport } from '../../src/contract/diff.ts'
import type { Manifest } from '../../src/contract/manifest.ts'
import { maxPatchBytes, type TurnPatch } from '../../src/contract/patch.ts'
import type { DiffOptions } from './diff-store.ts'
import { isWholeDiffBase, readDiffCommit, readDiffBase, takeDiff, takeDiffPatch } from './diff.ts'
import type { Emit } from '../memory/spool.ts'
import { log, messageOf } from '../log.ts'
import type { Memory } from '../memory/memory.ts'
import type { Run } from '../enclosure/reader.ts'
import type { Supervisor } from '../opencode/supervisor.ts'

const eventDiffBytes = 200 * 1024

export class Changes {
  readonly #memory: Memory
  readonly #supervisor: Pick<Supervisor, 'layout'>
  readonly #run: Run
  readonly #marks: Record<string, string>
  /** Of the turn that ends: it goes out with its end. */
  #patch: TurnPatch | null = null

  constructor(
    memory: Memory,
    supervisor: Pick<Supervisor, 'layout'>,
    run: Run,
    marks: Record<string, string>,
  ) {
    this.#memory = memory
    this.#supervisor = supervisor
    this.#run = run
    this.#marks = marks
  }

  /** Once per sandbox. One that goes on with a session's own files counts from where that session began. */
  async rememberBase({ layout, baseTree }: Manifest): Promise<void> {
    if (this.#memory.value.baseTree !== null) return
    const options = this.#diffOptions(layout)
    const own = await readDiffBase(options)
    const isKnown = baseTree !== undefined && (await isWholeDiffBase(options, baseTree, own))
    // With files of an earlier sandbox the checked-out commit may be the agent's own work.
    const baseCommit = baseTree === undefined ? await readDiffCommit(options) : null
    this.#memory.save({ baseTree: isKnown ? baseTree : own, baseCommit })
  }

  /** Null: what it began with is not known. */
  async diff(maxBytes?: number): Promise<DiffReport | null> {
    const { baseTree } = this.#memory.value
    if (baseTree === null) return null
    return this.#takeDiff(this.#diffOptions(this.#supervisor.layout), baseTree, maxBytes)
  }

  /** The patch is kept until the end of the turn is told. */
  async atTurnEnd(): Promise<DiffReport | null> {
    const { baseTree } = this.#memory.value
    if (baseTree === null) return null
    const options = this.#diffOptions(this.#supervisor.layout)
    this.#patch = await takeDiffPatch(options, baseTree, maxPatchBytes).catch((error: unknown) => {
      log('patch.failed', { reason: messageOf(error) })
      return null
    })
    return this.#takeDiff(options, baseTree, eventDiffBytes)
  }

  async #takeDiff(options: DiffOptions, baseTree: string, maxBytes?: number): Promise<DiffReport> {
    const report = await takeDiff(options, baseTree, maxBytes)
    const { baseCommit } = this.#memory.value
    return baseCommit === null ? report : { ...report, commit: baseCommit }
  }

  /** Beside what an event may hold: the end of a turn travels in a message of its own if need be. */
  readonly emitTo =
    (emit: Emit): Emit =>
    (kind, data) => {
      if (kind !== 'turn.ended') return emit(kind, data)
      const patch = this.#patch
      this.#patch = null
      emit('turn.ended', { ...(data as EventData<'turn.ended'>), patch })
    }

  #diffOptions({ home, workspace }: Manifest['layout']): DiffOptions {
    return {
      workspace,
      gitDir: `${home}/.gantry-diff.git`,
      run: this.#run,
      environment: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', HOME: home, ...this.#marks },
      excluded: this.#memory.value.copies.map((path) => path.slice(workspace.length + 1)),
    }
  }
}
