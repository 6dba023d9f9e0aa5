import { canonicalJson } from '../../../contract/canonical.ts'
import type { ProviderName } from '../../../contract/session.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import { saveSpendingLimits } from '../budget/spending.ts'
import { listPins, withoutContent } from '../pins/pins.ts'
import type { CreateSession } from '../record/record.ts'
import { appendEvent } from '../log/events.ts'
import { saveAttemptTerms } from '../record/attempt-terms.ts'
import { savePolicyRow } from '../gate/policy-row.ts'
import {
  equipmentOf,
  idleSecondsOf,
  loadSession,
  type NewSession,
  projectSession,
} from '../record/record.ts'
import { type SealedValue, sealedSecrets } from '../record/secrets.ts'

/** Whether a creation asks for nothing that is fixed when a sandbox boots. The session looks again, closer. */
export function mayBeWarm(
  { input, pins = [], attempt }: CreateSession,
  defaultSandbox: ProviderName,
): boolean {
  return (
    // A warm sandbox has the manifest of a plain session.
    pins.length === 0 &&
    // Nor does it have the files of an eval case.
    (attempt?.files.length ?? 0) === 0 &&
    input.memory === undefined &&
    input.abilities === undefined &&
    input.configurationId !== undefined &&
    input.sessionType === 'coding' &&
    input.clientType !== 'automation' &&
    (input.sandbox ?? defaultSandbox) === defaultSandbox &&
    input.repository === undefined &&
    input.image === undefined &&
    input.limits === undefined &&
    input.model === undefined &&
    input.reasoningEffort === undefined &&
    input.system_prompt === undefined &&
    !input.trustProjectConfig
  )
}

/** Whether this session's sandbox was booted exactly as one for the creation would be now. */
export function fitsWarm(sql: Sql, create: CreateSession, plan: NewSession): boolean {
  return canonicalJson(bootedAs(sql)) === canonicalJson(bootFor(create, plan))
}

/** Everything that the manifest, the environment and the machine were made of. */
function bootFor(create: CreateSession, plan: NewSession) {
  const { input, configuration, secrets = [] } = create
  return {
    provider: plan.provider,
    mode: plan.mode,
    model: plan.model,
    repository: plan.repository,
    systemPrompt: plan.systemPrompt,
    project: configuration?.project ?? input.project,
    configurationId: configuration?.id ?? null,
    snapshotId: configuration?.snapshotId ?? null,
    envFiles: configuration?.envFiles ?? [],
    trusts: input.trustProjectConfig || (configuration?.trustProjectConfig ?? false),
    effort: input.reasoningEffort ?? null,
    image: input.image ?? null,
    limits: input.limits ?? {},
    equipment: equipmentOf(create),
    memoryScopes: create.memoryScopes ?? [],
    secrets: secretTexts(secrets),
    pins: plan.pins.map(withoutContent),
  }
}

function bootedAs(sql: Sql): ReturnType<typeof bootFor> {
  const session = loadSession(sql)
  const { repositoryUrl: url, repositoryRef: ref, repositoryToken: token } = session
  return {
    provider: session.provider,
    mode: session.mode,
    model: session.model,
    repository: url === null ? null : { url, ref, token },
    systemPrompt: session.systemPrompt,
    project: session.project,
    configurationId: session.configurationId,
    snapshotId: session.snapshotId,
    envFiles: session.envFiles,
    trusts: session.trustProjectConfig,
    effort: session.reasoningEffort,
    image: session.image,
    limits: session.limits,
    equipment: session.equipment,
    memoryScopes: session.memoryScopes,
    secrets: secretTexts(sealedSecrets(sql)),
    pins: listPins(sql),
  }
}

const secretTexts = (values: readonly SealedValue[]): string[] =>
  values
    .map(({ key, sealed, inject }) => `${key} ${sealed} ${canonicalJson(inject ?? null)}`)
    .toSorted()

/** From here on it is a session like any other, and its time begins. */
export function openWarm(sql: Sql, now: number, create: CreateSession, plan: NewSession): void {
  const { input, keyId, memberId = null, sessionId: creationId } = create
  const idleSeconds = idleSecondsOf(input)
  sql.run(
    `update session set status = 'open', claimed_for = ?, created_at = ?, key_id = ?, member_id = ?, title = ?,
       client_type = ?, gate = ?, idle_timeout_seconds = ?, replacement = ?, agent_config = ?`,
    creationId,
    now,
    keyId,
    memberId,
    plan.title,
    input.clientType,
    JSON.stringify(input.gate),
    idleSeconds,
    input.replacement ?? 'auto',
    JSON.stringify(plan.agentConfig),
  )
  savePolicyRow(sql, create.policy ?? null)
  if (create.attempt) saveAttemptTerms(sql, create.attempt)
  if (input.budget) saveSpendingLimits(sql, now, input.budget, keyId)
  if (idleSeconds !== null) setDeadline(sql, 'sandbox.idle', now + idleSeconds * 1000)
  setDeadline(sql, 'warm', now)
  const { project } = loadSession(sql)
  appendEvent(sql, now, 'session.claimed', { project, title: plan.title })
  projectSession(sql, now)
}
