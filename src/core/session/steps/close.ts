import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { closeOpenRuns } from '../approvals/close-runs.ts'
import { abandonCalls } from '../calls/rows.ts'
import { addCommand, dropOpenCommands } from '../commands/rows.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { appendEvent } from '../log/events.ts'
import { suspectAllAttempts } from '../operations/attempts.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { isLive, projectSession } from '../record/record.ts'
import { endGeneration } from '../generations/generations.ts'
import { changeSandboxState } from '../generations/sandbox-states.ts'
import { stopPulse } from '../generations/pulse.ts'
import { requestAbort } from '../turns/aborts.ts'
import { interruptTurn } from '../turns/rows.ts'

/** Final, and may be repeated: whatever waits is answered, runs and turns end, and the sandbox is stopped. */
export function closeSession(kernel: SessionKernel, reason: string): void {
  const session = kernel.session()
  if (!isLive(session)) return
  kernel.commit((sql, now) => {
    kernel.answer(denyOpenQuestions(sql, now, 'The session is being closed', 'close'))
    // Whoever waits for the sandbox learns at once that nothing will come.
    dropOpenCommands(sql, 'The session was closed')
    // Those that run here settle by themselves; nobody is left to run the others.
    abandonCalls(sql, now, kernel.instance)
    clearDeadline(sql, 'close')
    // Before their turns end: a run that a prompt made would end as its turn does.
    closeOpenRuns(sql, now, 'The session was closed')
    requestAbort(sql, now, session.generation, 'The session was closed')
    interruptTurn(sql, now, 'The session was closed')
    suspectAllAttempts(sql, now, 'The session was closed')
    setDeadline(sql, 'slice.return', now)
    sql.run(`update session set status = 'closed', closed_at = ?`, now)
    appendEvent(sql, now, 'session.closed', { reason })
    projectSession(sql, now)
    setDeadline(sql, 'purge', now + kernel.ports.config.retentionMs)
    if (session.status === 'warm') setDeadline(sql, 'warm', now)
    if (changeSandboxState(sql, now, 'close', null)) endSandbox(sql, now, session.generation)
  })
}

function endSandbox(sql: Sql, now: number, generation: number): void {
  stopPulse(sql)
  clearDeadline(sql, 'sandbox.start')
  endGeneration(sql, generation, now, { outcome: 'stopped', reason: 'The session was closed' })
  setDeadline(sql, `sandbox.stop:${generation}`, now)
  addCommand(sql, now, {
    id: `stop_${generation}`,
    generation,
    kind: 'stop',
    body: { reason: 'session closed' },
  })
}
