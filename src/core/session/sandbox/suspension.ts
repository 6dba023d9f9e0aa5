import { turnPatience } from '../../../contract/turn.ts'
import { type Deadline, deadlineAt, setDeadline } from '../../actor/deadlines.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { callDeadline, callLeaseMs } from '../budget/model-calls.ts'
import { pulseMs } from '../generations/pulse.ts'
import { bootMs } from '../generations/sandbox-states.ts'
import { allowRenewal, sleptMs } from '../generations/renewal.ts'
import { startMs } from '../generations/sandbox-start.ts'
import { operationPatienceMs } from '../operations/rows.ts'

/** From then on there is time again to save what was to be saved. */
const saveAgainMs = 5 * 60_000

/**
 * Patience that passed while nobody could have answered is not used up: it begins anew. Only what would give up on a
 * sandbox or a model call waits; what asks the provider, or extends a lease, is done at once. True: it has been put off.
 */
export function putOffAfterSuspension(kernel: SessionKernel, { name, at }: Deadline): boolean {
  const { sql, now } = kernel.ports
  if (now() - at < sleptMs) return false
  kernel.commit((sql, at) => allowRenewal(sql, at, name))
  const [kind = '', argument = ''] = name.split(':')
  // First of the two: its stop is put off, and then it is saved at once.
  const isSave = kind === 'sandbox.save'
  const isStopOfUnsaved =
    kind === 'sandbox.stop' && deadlineAt(sql, `sandbox.save:${argument}`) !== null
  const ms = isSave || isStopOfUnsaved ? saveAgainMs : patienceOf(kernel, kind, argument)
  if (ms === null) return false
  const later = isSave ? `sandbox.stop:${argument}` : name
  kernel.commit(() => setDeadline(sql, later, now() + ms))
  return !isSave
}

function patienceOf(kernel: SessionKernel, kind: string, argument: string): number | null {
  if (kind === 'attempt') return operationPatienceMs(kernel.ports.sql, argument)
  const { idleTimeoutSeconds } = kernel.session()
  const patience: Record<string, number | null> = {
    'turn.silent': turnPatience.silentMs,
    'turn.lost': turnPatience.reconnectMs,
    [callDeadline]: callLeaseMs,
    'sandbox.pulse': pulseMs,
    'sandbox.boot': bootMs,
    'sandbox.start': startMs,
    'sandbox.idle': idleTimeoutSeconds && idleTimeoutSeconds * 1000,
  }
  return patience[kind] ?? null
}
