import { type Alarm, alarmOfRooms } from '../actor/alarm.ts'
import { LedgerSender } from '../actor/ledger-sender.ts'
import type { ApiOf } from '../actor/room.ts'
import { Attempts } from './attempts/attempts.ts'
import { Judging } from './attempts/judging.ts'
import { Erasing } from './erasing.ts'
import { Providers } from './providers/providers.ts'
import { EvalRunKernel } from './record/kernel.ts'
import type { EvalRunPorts } from './record/ports.ts'
import { Runs } from './runs.ts'

/**
 * One eval run: a list of rooms over one kernel. Its attempts are rows that survive everything; what works on them, and
 * the sessions that it works in, may die at any time. Callers ask through `api`; the hosts around it only carry messages
 * and call `runDue`.
 */
export class EvalRunActor {
  readonly api: EvalRunApi
  readonly #alarm: Alarm

  constructor(ports: EvalRunPorts) {
    const kernel = new EvalRunKernel(ports)
    const { api, alarm } = alarmOfRooms(kernel, createRooms(kernel))
    this.api = api
    this.#alarm = alarm
    if (kernel.created) kernel.recover()
  }

  /** The host's alarm has fired. */
  runDue(): Promise<void> {
    return this.#alarm.fired()
  }
}

/** What callers may ask of an eval run. */
export type EvalRunApi = ApiOf<ReturnType<typeof createRooms>>

function createRooms(kernel: EvalRunKernel) {
  const outbox = new LedgerSender(kernel, () => kernel.run())
  const providers = new Providers(kernel)
  return {
    runs: new Runs(kernel),
    attempts: new Attempts(kernel, providers, new Judging(kernel, providers)),
    erasing: new Erasing(kernel, outbox),
    outbox,
  }
}
