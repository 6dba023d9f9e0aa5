import { AppError } from '../../../contract/error.ts'
import { Kernel } from '../../actor/kernel.ts'
import type { Written } from '../../actor/writes.ts'
import type { LogFields, Sql } from '../../ports.ts'
import { evalRunLadder } from '../rungs/ladder.ts'
import type { EvalRunPorts } from './ports.ts'
import { loadEvalRunRecord, type EvalRunRecord } from './record.ts'

/**
 * The kernel of an eval run. It keeps the run's own row at hand, and leaves no trace of a run that was never made: whoever
 * asks for it gets 404, and no table is created. All rooms of the run commit through it.
 */
export class EvalRunKernel extends Kernel<EvalRunPorts> {
  #run: EvalRunRecord | undefined
  #forgotten = false

  constructor(ports: EvalRunPorts) {
    super(ports, evalRunLadder)
  }

  protected override about(): LogFields {
    if (!this.created) return {}
    try {
      const { id: evalRunId, organisationId } = this.run()
      return { evalRunId, organisationId }
    } catch {
      return {}
    }
  }

  protected override forgetRows(tables: Written): void {
    if (tables.has('eval_run')) this.#run = undefined
  }

  run(): EvalRunRecord {
    if (!this.created) throw new AppError('not_found', 'No such eval run')
    this.#run ??= loadEvalRunRecord(this.ports.sql)
    return this.#run
  }

  override forget(): void {
    super.forget()
    this.#forgotten = true
  }

  override commit<T>(work: (sql: Sql, now: number) => T): T {
    // Whatever was still under way when the run was erased must not begin its database anew.
    if (this.#forgotten) throw new AppError('not_found', 'No such eval run')
    return super.commit(work)
  }
}
