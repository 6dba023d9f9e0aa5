import { AppError, type ErrorDetail } from '../../../contract/error.ts'
import type {
  PolicyFormat,
  PolicyPut,
  PolicyPutResult,
  PolicyRow,
  StoredPolicy,
} from '../../../contract/stored-policy.ts'
import { builtinPolicy, policyFromBuiltin } from '../../policy/builtin-policy.ts'
import { ruleApprovalTerms } from '../../policy/rules.ts'
import type { Db } from '../../ports.ts'
import { migrationWarnings, policyWarnings } from '../../policy/warnings.ts'
import type { Policy, PolicyDocument } from '../../../contract/policy.ts'
import type { DocumentError } from '../../documents.ts'
import { type ParsedPolicy, parsePolicyDocument } from '../../policy/document.ts'

/** Each is tried on every path, host and command: a question must not hold up others for long. */
const maxPatterns = 1000

/** Or refuses, with the place of every mistake. */
export function mustParsePolicy(source: string, format: PolicyFormat): PolicyDocument {
  const document = documentOf(parsePolicyDocument(source, format))
  const patterns = countPatterns(document)
  if (patterns <= maxPatterns) return document
  const message = `Must have at most ${maxPatterns} patterns in all its rules, and has ${patterns}`
  throw new AppError('unprocessable', `Invalid policy: ${message}`, [{ path: 'rules', message }])
}

/** What its rules match by, all together. */
export const countPatterns = ({ rules }: PolicyDocument): number =>
  rules.reduce((sum, { match }) => sum + Object.values(match).flat().length, 0)

/** What is stored may have a name that has been taken since, and more patterns than are taken now. */
const mustParseStored = (source: string, format: PolicyFormat): PolicyDocument =>
  documentOf(parsePolicyDocument(source, format, []))

function documentOf(parsed: ParsedPolicy): PolicyDocument {
  if ('policy' in parsed) return parsed.policy
  const details = parsed.errors.map(detailOf)
  throw new AppError('unprocessable', summary(details), details)
}

function detailOf({ line, column, path, message }: DocumentError): ErrorDetail {
  const field = path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]')
  return { path: `line ${line}, column ${column} ${field}`.trimEnd().slice(0, 200), message }
}

function summary([first, ...rest]: ErrorDetail[]): string {
  if (!first) return 'The policy is not valid'
  const more = rest.length > 0 ? ` (and ${rest.length} more)` : ''
  return `Invalid policy at ${first.path}: ${first.message}${more}`
}

/** Whose policy: one project's, or (null) the whole organisation's. */
interface PolicyOwner {
  organisationId: string
  project: string | null
}

interface Row {
  project: string
  version: number
  name: string
  format: PolicyFormat
  extends: string
  removed: number
  created_by: string
  created_at: number
}
type LongRow = Row & { source: string | null }
const columns =
  'project, version, name, format, extends, source is null as removed, created_by, created_at'

const own = 'organisation_id = ?1 and project = ?2'
const newestOf = `select * from policies where ${own} order by version desc limit 1`
const newestNumber = `(select coalesce(max(version), 0) from policies where ${own})`

/** Repeatable: what the newest version says already is that version. */
export async function putPolicy(
  db: Db,
  now: number,
  caller: { organisationId: string; keyId: string },
  { project, source, format, expectedVersion }: PolicyPut,
): Promise<PolicyPutResult> {
  const document = mustParsePolicy(source, format)
  const builtin = builtinPolicy(document.extends) ?? 'none'
  const owner = { organisationId: caller.organisationId, project: project ?? null }
  const before = await findNewestPolicy(db, owner)
  const withWarnings = (stored: StoredPolicy): PolicyPutResult => ({
    ...stored,
    warnings: [
      ...migrationWarnings(before, document),
      ...policyWarnings(policyFromBuiltin(document, stored.version)),
    ],
  })
  // One statement decides and writes, so that of two callers who know the same version one is refused.
  const [made] = await db.all<LongRow>(
    `insert into policies (organisation_id, project, version, name, format, source, created_by, created_at, extends)
     select ?1, ?2, ${newestNumber} + 1, ?3, ?4, ?5, ?6, ?7, ?9
     where (?8 is null or ${newestNumber} = ?8)
       and not exists (select 1 from (${newestOf}) where source = ?5 and format = ?4 and extends = ?9)
     returning ${columns}, source`,
    ...scopeOf(owner),
    document.name,
    format,
    source,
    caller.keyId,
    now,
    expectedVersion ?? null,
    builtin,
  )
  if (made) return withWarnings(storedOf(made))
  const newest = await findNewestPolicy(db, owner)
  const isSame = newest?.source === source && newest.format === format && newest.extends === builtin
  if (newest && isSame) return withWarnings(newest)
  throw changedMeanwhile(newest?.version ?? 0)
}

/** A version that says "none": the organisation's counts again, or the built-in one. */
export async function removePolicy(
  db: Db,
  now: number,
  keyId: string,
  owner: PolicyOwner,
): Promise<StoredPolicy> {
  const before = await findNewestPolicy(db, owner)
  if (!before || before.removed) throw noPolicy()
  const [made] = await db.all<LongRow>(
    `insert into policies (organisation_id, project, version, name, format, source, created_by, created_at)
     select ?1, ?2, version + 1, name, format, null, ?3, ?4 from (${newestOf}) where version = ?5
     returning ${columns}, source`,
    ...scopeOf(owner),
    keyId,
    now,
    before.version,
  )
  if (made) return storedOf(made)
  const after = await findNewestPolicy(db, owner)
  if (after?.removed) return after
  throw changedMeanwhile(after?.version ?? 0)
}

/** What counts today, by project; the organisation's own comes first. */
export async function listPolicies(
  db: Db,
  organisationId: string,
  page: { limit: number; after: string | null },
): Promise<PolicyRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from policies as p
     where organisation_id = ?1 and (?2 is null or project > ?2) and source is not null
       and version = (select max(version) from policies where organisation_id = ?1 and project = p.project)
     order by project limit ?3`,
    organisationId,
    page.after,
    page.limit,
  )
  return rows.map(rowOf)
}

/** Newest first, removals too. */
export async function listPolicyVersions(
  db: Db,
  owner: PolicyOwner,
  page: { limit: number; before: number | null },
): Promise<PolicyRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from policies where ${own} and version < ?3 order by version desc limit ?4`,
    ...scopeOf(owner),
    page.before ?? Number.MAX_SAFE_INTEGER,
    page.limit,
  )
  return rows.map(rowOf)
}

export async function loadPolicyVersion(
  db: Db,
  owner: PolicyOwner,
  version: number,
): Promise<StoredPolicy> {
  const [row] = await db.all<LongRow>(
    `select ${columns}, source from policies where ${own} and version = ?3`,
    ...scopeOf(owner),
    version,
  )
  if (!row) throw noPolicy()
  return storedOf(row)
}

/** null: there never was one. It may say that there is none any more. */
export async function findNewestPolicy(db: Db, owner: PolicyOwner): Promise<StoredPolicy | null> {
  const [row] = await db.all<LongRow>(
    `select ${columns}, source from (${newestOf})`,
    ...scopeOf(owner),
  )
  return row ? storedOf(row) : null
}

const scopeOf = ({ organisationId, project }: PolicyOwner) => [organisationId, project ?? '']

export const noPolicy = () => new AppError('not_found', 'There is no such policy')

const changedMeanwhile = (version: number) =>
  new AppError('wrong_state', `Cannot change the policy: its newest version is ${version}`, [
    { path: 'expectedVersion', message: `The newest is ${version}` },
  ])

function rowOf(row: Row): PolicyRow {
  return {
    project: row.project || null,
    version: row.version,
    name: row.name,
    format: row.format,
    extends: row.extends,
    removed: row.removed === 1,
    createdBy: row.created_by as PolicyRow['createdBy'],
    createdAt: row.created_at,
  }
}

const storedOf = (row: LongRow): StoredPolicy => ({ ...rowOf(row), source: row.source })

/** The document that counts for a session, read once when it is created. */
interface LoadedPolicy {
  name: string
  version: number
  /** null: the whole organisation's. */
  project: string | null
  policy: Policy
}

/** The project's newest, else the organisation's; null: none, so the built-in one counts. */
export async function loadPolicyFor(
  db: Db,
  organisationId: string,
  project: string,
): Promise<LoadedPolicy | null> {
  const found = await Promise.all(
    [project, null].map((scope) => findNewestPolicy(db, { organisationId, project: scope })),
  )
  const stored = found.find((one) => one !== null && !one.removed)
  return stored ? loadedOf(stored) : null
}

function loadedOf(stored: StoredPolicy): LoadedPolicy {
  const { name, version, project } = stored
  return { name, version, project, policy: policyOf(stored) }
}

/** Who must approve what belongs to a project and no rule names. */
export async function loadPolicyApprovalTerms(
  db: Db,
  organisationId: string,
  project: string,
): Promise<{ quorum: number; group: string[] | null }> {
  const loaded = await loadPolicyFor(db, organisationId, project)
  return loaded ? ruleApprovalTerms(loaded.policy, '') : { quorum: 1, group: null }
}

/** A removed version has no document, so it cannot get here. What it extends was fixed when it was stored. */
export function policyOf({ source, format, version, extends: builtin }: StoredPolicy): Policy {
  const { extends: _, ...own } = mustParseStored(source ?? '', format)
  return { ...own, version, ...(builtin === 'none' ? {} : { builtin }) }
}
