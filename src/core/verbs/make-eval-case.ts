import type { FileReview } from '../../contract/change-ledger.ts'
import { AppError } from '../../contract/error.ts'
import type { EvalFromRun, EvalFromRunMade } from '../../contract/eval-from-run.ts'
import { type Run, RunEnd } from '../../contract/run.ts'
import { checkEvalFiles } from '../evals/files/check.ts'
import { type CaseParts, evalCaseFromRun } from '../evals/files/from-run.ts'
import type { Blobs } from '../ports.ts'
import { hideSecretLike } from '../redaction/redaction.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SessionApi } from '../session/session.ts'

interface Ports {
  session: Pick<SessionApi, 'self' | 'runs' | 'evidence' | 'evals'>
  blobs: () => Pick<Blobs, 'get'>
  textOf: (bytes: Uint8Array) => string
}

/** More than one file of an eval can hold is not looked at. */
const maxFiles = 500

/** An eval file with one case, from what a run that has ended was asked and has left. Stores nothing. */
export async function makeEvalCase(
  ports: Ports,
  caller: Caller,
  asked: EvalFromRun,
): Promise<EvalFromRunMade> {
  const { session } = ports
  const { run } = await session.runs.get(caller, asked.runId)
  mustHaveEnded(run)
  const { repository, configurationId } = await session.self.view(caller)
  const history = await session.evals.history(caller, run.id)
  const files = await allFiles(session, caller, run.id)
  const texts = await textsOf(ports, caller, files)
  const parts: CaseParts = { asked, run, repository, configurationId, history, files, texts }
  const { content, notes } = evalCaseFromRun(parts)
  const path = `${run.id}.yaml`
  const { problems } = checkEvalFiles({ files: [{ path, content }], suite: path, variables: {} })
  return { path, content, problems, notes }
}

function mustHaveEnded({ id, status }: Run): void {
  if (RunEnd.safeParse(status).success) return
  throw new AppError(
    'wrong_state',
    `Cannot make a case of ${id}: it is ${status}. Wait until it has ended, or end it by POST /v1/runs/${id}/finish`,
    [{ path: 'runId', message: `is ${status}` }],
  )
}

async function allFiles(
  session: Ports['session'],
  caller: Caller,
  runId: string,
): Promise<FileReview[]> {
  const files: FileReview[] = []
  for (let after: number | null = null; ;) {
    const page = await session.evidence.list(caller, runId, { limit: 100, after })
    files.push(...page.files)
    if (page.nextCursor === null || files.length >= maxFiles) return files
    after = Number(page.nextCursor)
  }
}

/** Those that are stored. A text in which something looks like a secret is not written into a file. */
async function textsOf(
  { blobs, textOf }: Ports,
  caller: Caller,
  files: readonly FileReview[],
): Promise<Map<string, string>> {
  const texts = new Map<string, string>()
  const store = blobs()
  for (const link of files.flatMap(({ before, after }) => [before, after])) {
    if (!link || texts.has(link.sha256)) continue
    const bytes = await store.get(caller.organisationId, link.sha256)
    const text = bytes && textOf(bytes)
    if (text !== null && hideSecretLike(text) === text) texts.set(link.sha256, text)
  }
  return texts
}
