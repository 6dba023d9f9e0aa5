import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { SandboxEnd } from '../../organisation/record/api.ts'
import type { SandboxFault, Sql } from '../../ports.ts'
import { suspectAllAttempts } from '../operations/attempts.ts'
import type { Answer } from '../../../contract/ask.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { dropOpenCommands } from '../commands/rows.ts'
import { appendEvent } from '../log/events.ts'
import {
  beginGeneration,
  endGeneration,
  isGenerationSteady,
  loadGeneration,
  missingFromGeneration,
  wasReady,
} from '../generations/generations.ts'
import { generationNoticeText } from '../generations/notice.ts'
import { loadSession } from '../record/record.ts'
import { changeSandboxState, isStarting, nextSandboxState } from '../generations/sandbox-states.ts'
import {
  addStartFailure,
  beginStart,
  chooseStartSource,
  retryStart,
  hasStartTriesLeft,
  setStartRetryAt,
} from '../generations/sandbox-start.ts'
import { turnInterruptedSince, interruptTurn } from '../turns/rows.ts'
import { stopPulse } from '../generations/pulse.ts'

/** The next one is asked for when the one before is stopped, at the latest after this time: it is fenced either way. */
const stopPatienceMs = 60_000

/** The provider or the agent says that it is over. Work may be gone: it is announced, and by default replaced. */
export function loseSandbox(
  sql: Sql,
  now: number,
  cause: 'gone' | 'broken',
  reason: string,
): Answer[] {
  const { generation, replacement, snapshotId } = loadSession(sql)
  if (!changeSandboxState(sql, now, cause, reason)) return []
  if (isGenerationSteady(sql, now, generation)) beginStart(sql, now)
  else addStartFailure(sql, { at: now, generation, reason }, 'loss')
  const why: Release = {
    end: { outcome: 'lost', reason },
    denial: ['The sandbox was lost', 'sandbox-lost'],
    words: reason,
  }
  if (replacement === 'manual') return letGoSandbox(sql, now, generation, why)
  if (!hasStartTriesLeft(sql, snapshotId)) return giveUpSandbox(sql, now, reason, why)
  return replaceSandbox(sql, now, 'replace', why)
}

/** It did not become ready. Another one is tried, from the next older thing; after enough of them it is given up. */
export function loseStartingSandbox(
  sql: Sql,
  now: number,
  reason: string,
  fault: SandboxFault | null = null,
): Answer[] {
  const { generation, snapshotId, sandboxState, replacement } = loadSession(sql)
  if (nextSandboxState(sandboxState, 'start-failed') === null) return []
  addStartFailure(sql, { at: now, generation, reason }, 'boot')
  const why = fault === null ? failed(reason) : notByProvider(reason)
  // One that has worked before has work in it.
  const byHand = replacement === 'manual' && wasReady(sql, generation)
  // Its user has to change something: the next one would fail in the same way.
  const isFinal = fault === 'user' || byHand || !hasStartTriesLeft(sql, snapshotId)
  return isFinal
    ? giveUpSandbox(sql, now, reason, why)
    : replaceSandbox(sql, now, 'start-failed', why)
}

const failed = (reason: string): Release => ({
  end: { outcome: 'failed', reason },
  denial: ['The sandbox failed', 'sandbox-lost'],
  words: reason,
})

/** The organisation's breaker does not count it. */
const notByProvider = (reason: string): Release => ({
  ...failed(reason),
  end: { outcome: 'refused', reason },
})

/** The last reason is shown; the ones before are in the list of the start's failures. */
export function giveUpSandbox(
  sql: Sql,
  now: number,
  reason: string,
  why: Release = failed(reason),
): Answer[] {
  const { generation } = loadSession(sql)
  if (!changeSandboxState(sql, now, 'gave-up', reason)) return []
  addStartFailure(sql, { at: now, generation, reason }, 'create')
  return letGoSandbox(sql, now, generation, why)
}

/** Without a next one. */
export function letGoSandbox(sql: Sql, now: number, generation: number, why: Release): Answer[] {
  clearDeadline(sql, 'sandbox.start')
  setStartRetryAt(sql, null)
  return release(sql, now, generation, why).answers
}

/** Its agent says that it cannot go on. */
export function loseBrokenSandbox(sql: Sql, now: number, reason: string): Answer[] {
  return isStarting(loadSession(sql).sandboxState)
    ? loseStartingSandbox(sql, now, reason)
    : loseSandbox(sql, now, 'broken', reason)
}

export interface Release {
  end: SandboxEnd
  /** The reason and the actor with which open asks are denied. */
  denial: [reason: string, actor: string]
  /** To whoever waits for a turn or a command. */
  words: string
}

/** Nothing parked may run, the turn is interrupted, open commands are answered, what is left is stopped. */
function release(
  sql: Sql,
  now: number,
  generation: number,
  { end, denial, words }: Release,
): { answers: Answer[]; turnId: string | null } {
  const answers = denyOpenQuestions(sql, now, ...denial)
  const turnId = interruptTurn(sql, now, words)
  dropOpenCommands(sql, words)
  suspectAllAttempts(sql, now, words)
  stopPulse(sql)
  endGeneration(sql, generation, now, end)
  setDeadline(sql, `sandbox.stop:${generation}`, now)
  return { answers, turnId }
}

/** Fence first: from this commit on, whatever the old generation sends is refused. */
export function replaceSandbox(
  sql: Sql,
  now: number,
  cause: 'replace' | 'start-failed',
  why: Release,
): Answer[] {
  const before = loadSession(sql)
  if (!changeSandboxState(sql, now, cause, why.end.reason)) return []
  const { answers, turnId } = release(sql, now, before.generation, why)
  retryStart(sql, now)
  setDeadline(sql, 'sandbox.next', now + stopPatienceMs)
  const snapshotId = chooseStartSource(sql, before.snapshotId)
  beginGeneration(sql, before.generation + 1, snapshotId)
  const missing = missingFromGeneration(sql, now, snapshotId)
  appendEvent(sql, now, 'sandbox.replaced', {
    from: before.generation,
    to: before.generation + 1,
    reason: why.end.reason,
    snapshotId,
    snapshotAt: missing.since,
    interruptedTurnId: turnId ?? interruptedIn(sql, before.generation),
    lost: generationNoticeText(missing),
  })
  return answers
}

/** An agent that is told to end says that its turn is interrupted before anybody else knows of the end. */
function interruptedIn(sql: Sql, generation: number): string | null {
  const readyAt = loadGeneration(sql, generation)?.readyAt ?? null
  return readyAt === null ? null : turnInterruptedSince(sql, readyAt)
}
