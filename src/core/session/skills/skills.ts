import { AppError } from '../../../contract/error.ts'
import type { SkillUsage, SkillVerdict } from '../../../contract/skill-usage.ts'
import type { RoomOf } from '../../actor/room.ts'
import { pinsOf } from '../pins/pins.ts'
import type { Caller } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { findRun } from '../runs/rows.ts'
import { listSkillTexts, type SkillText } from './texts.ts'
import { recordSkillUsage } from './usage.ts'

export interface SkillsApi {
  /** Once per run, skill and outcome. */
  judge(caller: Caller, runId: string, verdict: SkillVerdict): Promise<SkillUsage>
  /** What its sandbox has found of skills that are files of the workspace. */
  texts(caller: Caller): Promise<SkillText[]>
}

/**
 * What the session's skills were good for: routes add an outcome and the agent tells what it has loaded, each once per run.
 * What the skills say is pinned when the session begins, and is in the manifest. Routes of skills and the link call it.
 */
export class Skills implements RoomOf<SkillsApi> {
  readonly api: SkillsApi = this
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  async texts(caller: Caller): Promise<SkillText[]> {
    guardSession(this.#kernel, caller)
    return listSkillTexts(this.#kernel.ports.sql)
  }

  async judge(caller: Caller, runId: string, verdict: SkillVerdict): Promise<SkillUsage> {
    const { id: sessionId } = guardSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    return this.#kernel.commit((sql, now) => {
      if (!findRun(sql, runId)) throw new AppError('not_found', `No such run: "${runId}"`)
      const pin = pinsOf(sql, 'skill').find(({ id }) => id === verdict.skillId)
      if (!pin) throw notBegunWith(verdict.skillId)
      const note = this.#kernel.hide(verdict.note)
      const use = { pin, runId, outcome: verdict.outcome, actor: caller.keyId, note }
      return { ...recordSkillUsage(sql, now, use), sessionId: sessionId as SkillUsage['sessionId'] }
    })
  }
}

const notBegunWith = (skillId: string) =>
  new AppError('unprocessable', `The session did not begin with skill "${skillId}"`, [
    { path: 'skillId', message: 'Must be one of the session’s pins' },
  ])
