// Carries out operations by their isolation plan, each attempt at most once; only reading may be repeated. An attempt
// is on the disk before anything happens; one that was begun and cut off is reported as unknown and never repeated. A
// plan that counts on an enforcement that this sandbox does not have is refused. Git work runs one after the other. The
// agent calls it for the commands execute, cancel, merge and discard.

import { createHash } from 'node:crypto'
import { isAbsolute } from 'node:path'
import { canonicalJson } from '../../src/contract/canonical.ts'
import type { CommandBody } from '../../src/contract/link.ts'
import type {
  DiscardReport,
  Enforcement,
  ExecutionReport,
  IsolationPlan,
  MergeReport,
  Operation,
} from '../../src/contract/operation.ts'
import { crashPoint } from '../crash-points.ts'
import { killMarked } from '../marked-processes.ts'
import { shorten } from '../shorten.ts'
import { Attempts, type Ended, type Known } from './attempts.ts'
import { edit } from './git/edit.ts'
import { fetchUrl } from './read/fetch.ts'
import { runGitCommand, runGitInWorktree } from './git/git-command.ts'
import { dropMergeBranch, mergeCommit, removeMergedBranch } from './git/merge.ts'
import { type Outcome, outcomeReport } from './run/outcome.ts'
import { attemptMark, runSiteEnvironment, runSiteFolder, type Site } from './run/site.ts'
import { type Held, probeEnforcement } from './run/probe.ts'
import { readFolderNames, readFile, type Upload } from './read/read.ts'
import { revertFile } from './revert-file.ts'
import {
  branchOf,
  openRepository,
  removeRepositoryFolder,
  type Repository,
} from './git/repository.ts'
import { type Run, runEnclosed } from './run/run.ts'
import { withPinnedFolder } from '../abilities/pinned-folders.ts'

interface ExecutorOptions {
  /** The agent's own: what was begun and how it ended. */
  folder: string
  /** Waits until the sandbox is ready. */
  site: () => Promise<Site>
  probeSite: Pick<Site, 'owner' | 'path' | 'marks'>
  /** Makes sure that the folder of an ability is there, as it was pinned, and says where. */
  abilityFolder: (hash: string) => Promise<string>
  upload: Upload
  maxReportBytes: number
}
type Body = CommandBody<'execute'>

const maxOutputBytes = 512 * 1024
const mergeMs = 120_000

export class Executor {
  readonly #options: ExecutorOptions
  readonly #attempts: Attempts
  readonly #running = new Map<string, { report: Promise<ExecutionReport>; stop: AbortController }>()
  #held: Promise<Held> | undefined
  /**
   * Git work runs one after the other: two at once would disturb each other in the workspace's references and index.
   */
  #gitQueue: Promise<unknown> = Promise.resolve()

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#attempts = new Attempts(options.folder)
  }

  async enforces(): Promise<Enforcement[]> {
    return (await this.#probe()).enforces
  }

  execute(body: Body): Promise<ExecutionReport> {
    const { attemptId } = body
    const running = this.#running.get(attemptId)
    if (running) return running.report
    const stop = new AbortController()
    const report = this.#once(body, stop.signal).finally(() => this.#running.delete(attemptId))
    this.#running.set(attemptId, { report, stop })
    return report
  }

  /** Ends a running attempt. One that was not begun counts as ended from now on, also if it is delivered later. */
  async cancel({ attemptId }: CommandBody<'cancel'>): Promise<Record<string, never>> {
    const running = this.#running.get(attemptId)
    if (running) running.stop.abort()
    else if (!this.#attempts.begin(attemptId, '')) this.#attempts.end(attemptId, notBegun)
    return {}
  }

  /** Drops the branch only if it is still what was reported: anybody in the sandbox can move it. */
  discard({ attemptId, branch }: CommandBody<'discard'>): Promise<DiscardReport> {
    return this.#withGit(async () => {
      const commit = this.#commitOf(attemptId, branch, 'discard')
      if (this.#attempts.merged(attemptId))
        throw new Error(`Cannot discard "${branch}": it is merged`)
      const known = this.#attempts.discarded(attemptId)
      if (known) return known
      return this.#inRepository(attemptId, mergeMs, async (repository) => {
        const dropped = await dropMergeBranch(repository, attemptId, commit)
        const discard = { discarded: true, commit: dropped ? commit : null }
        this.#attempts.rememberDiscard(attemptId, discard)
        return discard
      })
    })
  }

  #commitOf(attemptId: string, branch: string, verb: string): string {
    const known = this.#attempts.known(attemptId)
    if (known?.state === 'ended' && known.commit !== null && branch === branchOf(attemptId))
      return known.commit
    throw new Error(`Cannot ${verb} "${branch}": no attempt of this sandbox has made it`)
  }

  merge({ attemptId, branch }: CommandBody<'merge'>): Promise<MergeReport> {
    return this.#withGit(async () => {
      const commit = this.#commitOf(attemptId, branch, 'merge')
      if (this.#attempts.discarded(attemptId))
        throw new Error(`Cannot merge "${branch}": it was discarded`)
      return this.#attempts.merged(attemptId) ?? (await this.#merge(attemptId, commit))
    })
  }

  async #merge(attemptId: string, commit: string): Promise<MergeReport> {
    return this.#inRepository(attemptId, mergeMs, async (repository) => {
      const merge = await mergeCommit(repository, attemptId, commit)
      if (!merge.merged) return merge
      this.#attempts.rememberMerge(attemptId, merge)
      await removeMergedBranch(repository, attemptId)
      return merge
    })
  }

  async #once(body: Body, stop: AbortSignal): Promise<ExecutionReport> {
    // Looking may be repeated, and is not remembered.
    if (isLooking(body)) return (await this.#perform(body, stop)).report
    const { attemptId } = body
    // First this: an attempt that waits for a sandbox that never becomes ready was not begun.
    const site = await this.#options.site()
    const digest = createHash('sha256').update(canonicalJson(body.operation)).digest('hex')
    const known = this.#attempts.begin(attemptId, digest)
    if (known && !mayGoOn(body, known, digest))
      return this.#answerAgain(attemptId, known, digest, site)
    await crashPoint('execute.begun')
    const ended = await this.#perform(body, stop)
    this.#attempts.end(attemptId, ended)
    await crashPoint('execute.done')
    return ended.report
  }

  async #answerAgain(
    attemptId: string,
    known: Known,
    digest: string,
    site: Site,
  ): Promise<ExecutionReport> {
    if (known.digest !== '' && known.digest !== digest)
      throw new Error(`Cannot execute "${attemptId}": it was begun with another operation`)
    if (known.state === 'ended') return known.report
    await killMarked({ mark: `${attemptMark}=${attemptId}`, uid: undefined })
    await removeRepositoryFolder(site, attemptId, Date.now() + mergeMs)
    const error = 'It was begun, and the agent ended before it did: nobody can say how far it came'
    const report: ExecutionReport = {
      ...outcomeReport({ error, enforced: [] }, 0),
      status: 'unknown',
    }
    this.#attempts.end(attemptId, { report, commit: null })
    return report
  }

  /** Never throws: whatever goes wrong is how the attempt ended. */
  async #perform(body: Body, stop: AbortSignal): Promise<Ended> {
    if (stop.aborted) return notBegun
    const startedAt = Date.now()
    const outcome = await this.#dispatch(body, stop).catch(
      // Its message alone: a cause may name paths that nobody asked about.
      (error: Error): Outcome => ({ error: error.message.slice(0, 4000), enforced: [] }),
    )
    const whole = outcomeReport(outcome, Date.now() - startedAt)
    const { value, shortened } = shorten(whole, this.#options.maxReportBytes)
    const report = shortened ? { ...value, truncated: true } : whole
    return { report, commit: outcome.commit ?? null }
  }

  async #dispatch(body: Body, stop: AbortSignal): Promise<Outcome> {
    const plan = withinLimits(body.plan)
    const held = await this.#probe()
    refuseUnheld(plan, held)
    const site = await this.#options.site()
    const { operation } = body
    const boundary = { site, sessionPaths: plan.pathConstraints.filter(isAbsolute) }
    switch (`${plan.strategy} ${operation.operation}`) {
      case 'workspace read-file':
        return readFile(boundary, target(operation), plan.limits.outputBytes, this.#options.upload)
      case 'workspace revert-file':
        return revertFile(site, operation, body.executable ?? false)
      case 'workspace list-folder':
        return readFolderNames(boundary, operation.targetPath ?? '.', plan.limits.outputBytes)
      case 'git-worktree write-file':
      case 'git-worktree delete-file':
      case 'git-worktree apply-patch':
      case 'git-worktree git':
      case 'git-worktree run':
        return this.#inWorktree(body, plan, site, await this.#meansOf(body, held, stop))
      case 'process-sandbox run': {
        const means = await this.#meansOf(body, held, stop)
        const folder = runSiteFolder(site.workspace, operation.cwd)
        return runEnclosed({ ...runOf(body, plan, site, means), folder })
      }
      case 'process-sandbox fetch':
        return fetchUrl(operation.url ?? '', plan, this.#options.upload, stop)
      default:
        throw new Error(`Cannot execute "${operation.operation}" by the plan "${plan.strategy}"`)
    }
  }

  async #meansOf({ operation }: Body, held: Held, stop: AbortSignal): Promise<Means> {
    if (operation.ability === undefined) return { held, stop }
    return { held, stop, abilityDir: await this.#options.abilityFolder(operation.ability) }
  }

  #inWorktree(body: Body, plan: IsolationPlan, site: Site, means: Means): Promise<Outcome> {
    const { attemptId, operation } = body
    const { upload } = this.#options
    return this.#withGit(() => {
      // It may have waited for others.
      if (means.stop.aborted) throw new Error(beforeItBegan)
      return this.#inRepository(attemptId, plan.limits.timeoutMs, (repository) => {
        if (operation.operation === 'git')
          return runGitCommand(
            repository,
            attemptId,
            operation.args ?? [],
            { ...means, plan },
            upload,
          )
        if (operation.operation === 'run')
          return runGitInWorktree(
            repository,
            attemptId,
            runOf(body, plan, site, means),
            upload,
            operation.cwd,
          )
        return edit(repository, attemptId, operation, upload)
      })
    })
  }

  async #inRepository<T>(
    attemptId: string,
    timeoutMs: number,
    work: (repository: Repository) => Promise<T>,
  ): Promise<T> {
    const site = await this.#options.site()
    try {
      return await work(await openRepository(site, attemptId, Date.now() + timeoutMs))
    } finally {
      await removeRepositoryFolder(site, attemptId, Date.now() + mergeMs)
    }
  }

  #withGit<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#gitQueue.then(work)
    this.#gitQueue = done.catch(() => undefined)
    return done
  }

  #probe(): Promise<Held> {
    const { owner, path, marks } = this.#options.probeSite
    const environment = runSiteEnvironment(
      { owner, path, marks, home: '/', workspace: '/' },
      'probe',
    )
    this.#held ??= probeEnforcement(owner, environment)
    return this.#held
  }
}

const isLooking = ({ plan, operation }: Body): boolean =>
  plan.strategy === 'workspace' && operation.operation !== 'revert-file'

/** A revert that was cut off compares again: what it had done by then is found done. */
const mayGoOn = ({ operation }: Body, known: Known, digest: string): boolean =>
  operation.operation === 'revert-file' && known.state === 'begun' && known.digest === digest

function target({ operation, targetPath }: Operation): string {
  if (targetPath === undefined)
    throw new Error(`Cannot execute "${operation}": it needs a targetPath`)
  return targetPath
}

type Means = Pick<Run, 'held'> & { stop: AbortSignal; abilityDir?: string }

const beforeItBegan = 'It was cancelled before it began'
const notBegun: Ended = {
  report: outcomeReport({ error: beforeItBegan, enforced: [] }, 0),
  commit: null,
}

function runOf(
  { attemptId, operation }: Body,
  plan: IsolationPlan,
  site: Site,
  { held, stop, abilityDir }: Means,
): Omit<Run, 'folder'> {
  const { command = '', environment } = operation
  return {
    ...{ held, stop, site, attemptId, plan },
    command:
      abilityDir === undefined
        ? command
        : withPinnedFolder(command, environment?.ABILITY_DIR, abilityDir),
    environment: {
      PATH: site.path,
      HOME: site.home,
      LANG: 'C.UTF-8',
      ...environment,
      ...(abilityDir !== undefined && { ABILITY_DIR: abilityDir }),
    },
    apart: operation.streams === 'apart',
    looksFor: operation.looksFor,
    readOnly: abilityDir === undefined ? [] : [abilityDir],
  }
}

const withinLimits = (plan: IsolationPlan): IsolationPlan => ({
  ...plan,
  limits: { ...plan.limits, outputBytes: Math.min(plan.limits.outputBytes, maxOutputBytes) },
})

/** Throws if the plan counts on an enforcement that this sandbox lacks and that nobody has waived. */
function refuseUnheld({ enforce, notEnforced }: IsolationPlan, held: Held): void {
  const missing = enforce.filter(
    (each) => !notEnforced.includes(each) && !held.enforces.includes(each),
  )
  if (missing.length > 0)
    throw new Error(`Cannot execute: this sandbox cannot hold it to ${missing.join(', ')}`)
}
