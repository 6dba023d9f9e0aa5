import { canonicalJson } from '../../contract/canonical.ts'
import { AppError } from '../../contract/error.ts'
import type { EvalRun, EvalRunCreate } from '../../contract/eval-run.ts'
import type { EvalChecked } from '../../contract/eval-suite.ts'
import type { Target } from '../../contract/eval-target.ts'
import type { EvalRunApi } from '../eval-run/eval-run.ts'
import { planEvalRun } from '../eval-run/plan.ts'
import { checkEvalFiles } from '../evals/files/check.ts'
import type { OrganisationApi } from '../organisation/organisation.ts'
import type { Crypto } from '../ports.ts'
import { mustMayUsePlace } from '../registry/place.ts'
import type { Caller } from '../session/record/caller.ts'

export interface CreateEvalRunPorts {
  crypto: Pick<Crypto, 'sha256'>
  ids: { mint(): Promise<string> }
  organisation(id: string): Pick<OrganisationApi, 'creations'>
  /** Null: this deployment has no objects for eval runs. */
  evalRun(id: string): Pick<EvalRunApi, 'runs'>
}

/** A run of the suite in these files. The same key leads to the same run, however often it comes. */
export async function createEvalRun(
  ports: CreateEvalRunPorts,
  caller: Caller,
  input: EvalRunCreate,
  key: string | null,
): Promise<EvalRun> {
  mustMayUsePlace(caller, input.project)
  const checked = checkEvalFiles(input)
  const plan = planEvalRun(checked, input)
  const run = plan.targets.filter(({ name }) => plan.runTargets.includes(name))
  mustMayApprove(caller, run)
  const id = await claimRunId(ports, caller.organisationId, input, key)
  const { organisationId, keyId, memberId, owner, scopes = [], limits = null } = caller
  const created = await ports.evalRun(id).runs.create({
    ...plan,
    id,
    caller: { organisationId, keyId, memberId, owner, scopes, limits },
    project: input.project,
    dataset: checked.suite?.dataset ?? '',
    digest: digestOf(checked),
    problems: checked.problems,
    workers: input.workers,
    budget: input.budget,
    streamLogs: input.streamLogs && !isOff(input.variables['AGENTV_OPENCODE_STREAM_LOGS']),
    verbose: input.verbose,
  })
  return created
}

/** What asks would be answered in the caller's name, without anybody seeing it. */
function mustMayApprove({ scopes = [] }: Caller, targets: readonly Target[]): void {
  const approving = targets.find(
    (target) =>
      target.provider === 'cli' ||
      (target.provider === 'opencode' && target.permissions !== 'reject'),
  )
  if (!approving || scopes.includes('approve') || scopes.includes('admin')) return
  throw new AppError(
    'forbidden',
    `Target "${approving.name}" approves what its attempts ask for: this needs an API key with scope "approve"`,
    [{ path: 'targets', message: 'Use such a key, or for OpenCode set permissions to "reject"' }],
  )
}

function digestOf({ digest }: EvalChecked): string {
  if (digest === null) throw new AppError('unprocessable', 'Cannot run the suite: it has no case')
  return digest
}

const isOff = (value: string | undefined): boolean =>
  value !== undefined && /^(false|0|off)$/i.test(value.trim())

async function claimRunId(
  ports: CreateEvalRunPorts,
  organisationId: string,
  input: EvalRunCreate,
  key: string | null,
): Promise<string> {
  const fresh = `evl_${(await ports.ids.mint()).slice(4)}`
  if (key === null) return fresh
  const bodyHash = await ports.crypto.sha256(canonicalJson(input))
  // A key that callers choose has no line break: theirs for sessions are others.
  return await ports.organisation(organisationId).creations.claim(`evl\n${key}`, bodyHash, fresh)
}
