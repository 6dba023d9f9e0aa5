import type { FileReview, RunChanges } from '../../../contract/change-ledger.ts'
import { AppError, errorCodeOf } from '../../../contract/error.ts'
import { diffOfSubmodule, maxDiffFiles, type SessionDiff } from '../../../contract/diff.ts'
import type { EvaluatorAnswer, EvaluatorRequest } from '../../../contract/eval-request.ts'
import type { ExecutionReport, OperationRecord } from '../../../contract/operation.ts'
import { SessionCreate } from '../../../contract/session.ts'
import { hashText } from '../../hash.ts'
import type { AttemptCommand } from '../../session/evals/evals.ts'
import { leaveEvalAttempt, loadEvalAttempt } from '../record/attempts.ts'
import { tellEvalEvent } from '../record/events.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import type { AttemptSession } from '../record/ports.ts'
import type { Given } from './provider.ts'
import {
  sandboxSession,
  sandboxTerms,
  type SandboxTarget,
  triedSandboxPolicy,
} from './sandbox-session.ts'

/** More of what a command has printed is in no miss. */
const maxShown = 4000
/** Of an idempotency key. */
const maxKeyLength = 200
/** How long one look at an operation lasts: well within the lease of a deadline. */
const lookMs = 5000

/**
 * The session that an attempt works in, and what its evaluators look for there. An attempt has one of its own, so it has a
 * workspace that nobody else ever sees. Made under a key of run, number and try: after a crash it is the same one.
 */
export class AttemptSandbox {
  readonly #kernel: EvalRunKernel

  constructor(kernel: EvalRunKernel) {
    this.#kernel = kernel
  }

  session(id: string): AttemptSession {
    return this.#kernel.ports.session(id)
  }

  /** Makes the session, and publishes where its log will be before anything begins. */
  async begin(given: Given<SandboxTarget>): Promise<string> {
    const { run, attempt, target, evalCase } = given
    if (attempt.session_id !== null) return attempt.session_id
    const terms = sandboxTerms(given)
    const input = SessionCreate.parse(sandboxSession(given))
    const key = sandboxedKey(given, 'session')
    const { ports } = this.#kernel
    const { id, tried, began } = await ports.beginSession(run.caller, input, terms, key)
    const all = [...tried, ...triedSandboxPolicy(given)]
    const isOver = this.#kernel.commit((sql, now) => {
      sql.run(
        'update attempts set session_id = ?, tried = ?, began = ? where n = ?',
        ...[id, JSON.stringify(all), JSON.stringify(began), attempt.n],
      )
      const current = loadEvalAttempt(sql, attempt.n)
      const isDone = current.state === 'done'
      // Given up meanwhile: nobody else knows of this session.
      if (isDone) leaveEvalAttempt(sql, now, current)
      if (isDone || terms.logFile === null) return isDone
      const url = `${this.#kernel.ports.config.publicUrl}/v1/sessions/${id}/events`
      const about = { evalCaseId: evalCase.id, attempt: attempt.attempt, url }
      const entry = { filePath: terms.logFile, targetName: target.name, ...about }
      tellEvalEvent(sql, now, 'log.published', entry, `log ${terms.logFile}`)
      return false
    })
    if (isOver) throw new AppError('wrong_state', 'Cannot begin the attempt: it was given up')
    return id
  }

  async spentMicros({ run, attempt }: Given): Promise<number> {
    if (attempt.session_id === null) return 0
    const { used } = await this.session(attempt.session_id).budget.view(run.caller)
    return Math.round(used.moneyUsd * 1_000_000)
  }

  async workspace({ run, attempt }: Given): Promise<string | null> {
    if (attempt.session_id === null) return null
    return (await this.session(attempt.session_id).evals.facts(run.caller)).workspace
  }

  async abort({ run, attempt }: Given, reason: string): Promise<void> {
    if (attempt.session_id === null) return
    await this.session(attempt.session_id)
      .self.abort(run.caller, reason)
      .catch((error: unknown) => {
        if (errorCodeOf(error) === undefined) throw error
      })
  }

  async find(given: Given, request: EvaluatorRequest): Promise<EvaluatorAnswer | 'later'> {
    const { run, attempt } = given
    if (attempt.session_id === null) return failed('The attempt has no sandbox')
    const session = this.session(attempt.session_id)
    try {
      switch (request.kind) {
        case 'files':
          return await this.#files(given, session, request)
        case 'command':
          return await this.#command(given, session, request)
        case 'code_judge':
          return (
            (await this.#changedJudge(given, session, request)) ??
            (await this.#command(given, session, request))
          )
        case 'changes': {
          return changedPaths(await session.changes.diff(run.caller))
        }
        case 'policy': {
          const { denied, bypassed } = await session.evals.facts(run.caller)
          return { kind: 'policy', denied, bypassed }
        }
        case 'evidence':
          return await this.#proofs(given, session)
        default:
          return failed(`Nobody finds out "${request.kind}" in a sandbox`)
      }
    } catch (error) {
      // What the session refuses it will refuse again.
      if (errorCodeOf(error) === undefined) throw error
      return failed(error instanceof Error ? error.message : String(error))
    }
  }

  /** A file that differs and that no tool is known to have changed is not proven either. */
  async #proofs(
    { run, attempt }: Given,
    session: AttemptSession,
  ): Promise<EvaluatorAnswer | 'later'> {
    if (attempt.turn_id === null) return failed('Only changes of OpenCode can be proven')
    const { runId } = await session.turns.get(run.caller, attempt.turn_id)
    if (runId === null) return failed('The attempt has no run')
    const reviews: FileReview[] = []
    for (let after: number | null = 0; after !== null;) {
      const page: RunChanges = await session.evidence.list(run.caller, runId, { after, limit: 100 })
      if (page.collects.some(({ state }) => state === 'asked')) return 'later'
      reviews.push(...page.files)
      after = page.nextCursor === null ? null : Number(page.nextCursor)
    }
    const known = new Set(reviews.map(({ path }) => path))
    const changed = changedPaths(await session.changes.diff(run.caller))
    if (changed.kind === 'failed') return changed
    const unknown = changed.paths.filter((path) => !known.has(path))
    return {
      kind: 'evidence',
      changes: [
        ...reviews.map(({ path, rejectable, reasons }) => ({
          ...{ path, proven: rejectable },
          ...(reasons.length > 0 && { reason: reasons.join('; ') }),
        })),
        ...unknown.map((path) => ({
          ...{ path, proven: false, reason: 'No tool is known to have changed it' },
        })),
      ],
    }
  }

  async #files(
    given: Given,
    session: AttemptSession,
    { id, paths, texts }: Extract<EvaluatorRequest, { kind: 'files' }>,
  ): Promise<EvaluatorAnswer | 'later'> {
    const files: Extract<EvaluatorAnswer, { kind: 'files' }>['files'] = []
    for (const [at, path] of paths.entries()) {
      const key = sandboxedKey(given, `${id} ${at}`)
      const operationId = await session.evals.read(given.run.caller, path, key)
      const ended = await this.#look(given, session, operationId)
      if (ended === null) return 'later'
      const report = ended.attempts.at(-1)?.report
      const exists = report?.status === 'succeeded'
      const isText = texts && exists && !report.truncated
      files.push({ path, exists, text: isText ? report.output : null })
    }
    return { kind: 'files', files }
  }

  /**
   * A judge that is a file of the case must still be that file, and what the case has beside it in a folder must be, too:
   * the candidate could write there. Null: it is.
   */
  async #changedJudge(
    given: Given,
    session: AttemptSession,
    { id, command }: Extract<EvaluatorRequest, { kind: 'code_judge' }>,
  ): Promise<EvaluatorAnswer | 'later' | null> {
    const files = given.evalCase.workspace?.files ?? []
    const words = wordsOf(command)
    const folders = files
      .filter(({ path }) => words.includes(path) && path.includes('/'))
      .map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1))
    const named = files.filter(
      ({ path }) => words.includes(path) || folders.some((folder) => path.startsWith(folder)),
    )
    const paths = named.map(({ path }) => path)
    if (paths.length === 0) return null
    const found = await this.#files(given, session, {
      id: `${id} program`,
      kind: 'files',
      paths,
      texts: true,
    })
    if (found === 'later' || found.kind !== 'files') return found
    const changed = named.find(({ text }, at) => found.files[at]?.text !== text)
    return changed === undefined
      ? null
      : failed(`"${changed.path}", which judges, is not as the case has it any more`)
  }

  async #command(
    given: Given,
    session: AttemptSession,
    request: Extract<EvaluatorRequest, { kind: 'command' | 'code_judge' }>,
  ): Promise<EvaluatorAnswer | 'later'> {
    const { command, timeoutSeconds } = request
    const asked =
      request.kind === 'code_judge'
        ? {
            // Unset: a program is given no variable that is so long.
            command: `printf '%s' "$EVAL_INPUT" | { unset EVAL_INPUT\n${command}\n}`,
            environment: { EVAL_INPUT: request.input, ...ownModulesOnly },
          }
        : { command, ...(request.cwd !== undefined && { cwd: request.cwd }) }
    const ran = await this.run(given, request.id, { ...asked, timeoutMs: timeoutSeconds * 1000 })
    if (ran === 'later' || ran.kind === 'failed') return ran
    // A judge says all of it on standard output; of a command only the end is shown.
    const stdout = request.kind === 'code_judge' ? ran.stdout : ran.stdout.slice(-maxShown)
    return { ...ran, kind: request.kind, stdout, stderr: ran.stderr.slice(-maxShown) }
  }

  /** A command in the attempt's workspace, once. */
  async run(
    given: Given,
    name: string,
    command: AttemptCommand,
  ): Promise<
    | 'later'
    | Extract<EvaluatorAnswer, { kind: 'failed' }>
    | Extract<EvaluatorAnswer, { kind: 'command' }>
  > {
    const session = this.session(given.attempt.session_id ?? '')
    const operationId = await session.evals.run(
      given.run.caller,
      command,
      sandboxedKey(given, name),
    )
    const ended = await this.#look(given, session, operationId)
    if (ended === null) return 'later'
    const attempt = ended.attempts.at(-1)
    if (attempt === undefined) return failed(`Refused: ${ended.reason}`)
    const { report } = attempt
    if (report === null) return failed(attempt.reason ?? 'Nobody knows how it ended')
    const { output: stdout, exitCode, error, timedOut = false } = report
    if (exitCode === null && !timedOut) return failed(error ?? 'It was ended')
    return { kind: 'command', exitCode, timedOut, stdout, stderr: complaintOf(report) }
  }

  /** Null: it still moves. */
  async #look(
    { run }: Given,
    session: AttemptSession,
    operationId: string,
  ): Promise<OperationRecord | null> {
    const operation = await session.operations.get(run.caller, operationId, lookMs)
    const active = operation.attempts.find(({ status }) => status === 'reserved')
    return active?.suspectSince === null ? null : operation
  }
}

/**
 * Every path that differs, or else nobody knows: a list that is not whole would hide what lies beyond its end. What could
 * not be compared counts as changed.
 */
function changedPaths({
  at,
  files,
  truncated,
  leftOut,
}: SessionDiff):
  | Extract<EvaluatorAnswer, { kind: 'changes' }>
  | Extract<EvaluatorAnswer, { kind: 'failed' }> {
  if (at === null) return failed('Nobody has told what was changed')
  if (truncated && files.length >= maxDiffFiles)
    return failed(`More than ${maxDiffFiles} files were changed, and no others are compared`)
  const hidden = leftOut.filter(({ reason }) => reason !== diffOfSubmodule)
  return { kind: 'changes', paths: [...files, ...hidden].map(({ path }) => path) }
}

/** What it has printed as errors; without that what the sandbox says beside the exit code. */
const complaintOf = ({ stderr = '', error }: ExecutionReport): string =>
  stderr.trim() === '' ? (error ?? '').replace(/^Exit code \d+(?:: )?/, '') : stderr

/** Else Python takes a `json.py` of the candidate, in the program's folder or the home, for its own module. */
const ownModulesOnly = { PYTHONSAFEPATH: '1', PYTHONNOUSERSITE: '1' }

/** Of a shell command, without quotes: paths as they are written. */
const wordsOf = (command: string): string[] =>
  command
    .replaceAll(/["']/g, '')
    .split(/[\s;|&()<>]+/)
    .map((word) => word.replace(/^\.\//, ''))

const failed = (message: string): Extract<EvaluatorAnswer, { kind: 'failed' }> => ({
  kind: 'failed',
  message,
})

/** What belongs to one try of one attempt: a later try is another. */
export function sandboxedKey({ run, attempt }: Given, what: string): string {
  const key = `eval ${run.id} ${attempt.n}.${attempt.attempt} ${what}`
  return key.length <= maxKeyLength ? key : `eval ${hashText(key)}`
}
