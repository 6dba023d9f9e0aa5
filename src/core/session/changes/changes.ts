import type { PatchRow } from '../../../contract/patch.ts'
import type { SessionDiff } from '../../../contract/session.ts'
import type { RoomOf } from '../../actor/room.ts'
import { loadDiff, saveDiff } from './diff.ts'
import type { Caller } from '../record/caller.ts'
import type { Commands } from '../commands/commands.ts'
import { forgetCommand } from '../commands/rows.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { listPatches, loadPatch } from './patches.ts'

/** How long a caller waits for the sandbox before it gets the answer without it. */
const patienceMs = 10_000

export interface ChangesApi {
  diff(caller: Caller): Promise<SessionDiff>
  /** Of each turn that changed something, oldest first. */
  patches(caller: Caller): Promise<PatchRow[]>
  /** `latest`: of the newest. */
  patch(caller: Caller, turnId: string): Promise<PatchRow & { text: string }>
}

/**
 * What the agent has changed in its workspace: the diff as it is now, and the patch as it was after each turn. The routes of
 * diff and patches ask it. It only reads: patches are stored by the commit that ends the turn.
 */
export class Changes implements RoomOf<ChangesApi> {
  readonly api: ChangesApi = this
  readonly #kernel: SessionKernel
  readonly #commands: Commands

  constructor(kernel: SessionKernel, commands: Commands) {
    this.#kernel = kernel
    this.#commands = commands
  }

  /** From the sandbox if it can be asked now, else as it was at the end of the last turn. */
  async diff(caller: Caller): Promise<SessionDiff> {
    const { host, crypto, sql } = this.#kernel.ports
    const { sandboxState, generation } = guardSession(this.#kernel, caller)
    if (sandboxState !== 'ready' || !host.agentConnected()) return loadDiff(sql)
    const commandId = `diff_${crypto.random(20)}`
    const asked = this.#commands.ask('diff', commandId, {}).catch(() => null)
    const report = await Promise.race([asked, host.sleep(patienceMs).then(() => null)])
    this.#kernel.commit((sql, now) => {
      forgetCommand(sql, commandId)
      if (report) saveDiff(sql, now, generation, report)
    })
    const diff = loadDiff(sql)
    return { ...diff, live: report !== null && diff.generation === generation }
  }

  async patches(caller: Caller): Promise<PatchRow[]> {
    guardSession(this.#kernel, caller)
    return listPatches(this.#kernel.ports.sql)
  }

  async patch(caller: Caller, turnId: string): Promise<PatchRow & { text: string }> {
    guardSession(this.#kernel, caller)
    return loadPatch(this.#kernel.ports.sql, turnId)
  }
}
