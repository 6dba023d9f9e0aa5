// Profiles of models, stored like agents: one batch that may be sent again, every change a revision.

import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { Profile, ProfileDefinition, ProfileRevision } from '../../../contract/profile.ts'
import type { RegistryScope } from '../../../contract/registry-scope.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { type ListCaller, limitValues, mayUseProject, type Place } from '../place.ts'
import { mustBeSecretFree } from '../secret-free.ts'

export interface ProfileRow extends Omit<Profile, keyof ProfileDefinition> {
  definition: string
}

const columns = `p.id, p.project, p.scope, p.name, p.revision, r.sha256, r.definition, p.archived_at as archivedAt,
  p.created_at as createdAt, p.updated_at as updatedAt`
const current =
  'profiles p join profile_revisions r on r.profile_id = p.id and r.revision = p.revision'
const atPlace =
  'p.organisation_id = ? and p.project = ? and p.scope = ? and p.member_id = ? and p.name = ?'
const ofCaller = `p.organisation_id = ? and p.member_id in ('', ?)`
const placeValues = (place: Place, name: string): string[] => [
  ...[place.organisationId, place.project, place.scope, place.memberId, name],
]

const profileOf = ({ definition, ...row }: ProfileRow): Profile => ({
  ...row,
  ...(JSON.parse(definition) as ProfileDefinition),
})

interface Stored {
  place: Place
  name: string
  definition: ProfileDefinition
  keyId: string
}

export async function storeProfile(
  db: Db,
  crypto: Pick<Crypto, 'random' | 'sha256'>,
  now: number,
  profile: Stored,
): Promise<Profile> {
  const { place, name, definition } = profile
  mustBeSecretFree(`profile "${name}"`, { name, ...definition })
  const text = canonicalJson(definition)
  const sha256 = await crypto.sha256(text)
  await db.batch(statements(`prf_${crypto.random(20)}`, now, profile, { text, sha256 }))
  const stored = await findProfile(db, place, name)
  if (!stored) throw new Error('A profile that was stored is not there')
  return profileOf(stored)
}

function statements(
  id: string,
  now: number,
  { place, name, keyId }: Stored,
  { text, sha256 }: { text: string; sha256: string },
): DbStatement[] {
  const own = placeValues(place, name)
  return [
    {
      sql: `insert into profiles (id, organisation_id, project, scope, member_id, name, revision, created_at, updated_at)
            values (?, ?, ?, ?, ?, ?, 0, ?, ?) on conflict do nothing`,
      values: [id, ...own, now, now],
    },
    {
      sql: `insert into profile_revisions (profile_id, revision, definition, sha256, created_by, created_at)
            select p.id, p.revision + 1, ?, ?, ?, ? from profiles p
            where ${atPlace} and (p.archived_at is not null or not exists (select 1 from profile_revisions r
              where r.profile_id = p.id and r.revision = p.revision and r.sha256 = ?))`,
      values: [text, sha256, keyId, now, ...own, sha256],
    },
    {
      sql: `update profiles as p set revision = p.revision + 1, updated_at = ?, archived_at = null
            where ${atPlace} and exists (
              select 1 from profile_revisions r where r.profile_id = p.id and r.revision = p.revision + 1)`,
      values: [now, ...own],
    },
  ]
}

/** As it is stored. Archived ones too. */
export async function findProfile(db: Db, place: Place, name: string): Promise<ProfileRow | null> {
  const [row] = await db.all<ProfileRow>(
    `select ${columns} from ${current} where ${atPlace}`,
    ...placeValues(place, name),
  )
  return row ?? null
}

const notFound = () => new AppError('not_found', 'There is no such profile')

export async function loadProfileByName(
  db: Db,
  caller: ListCaller,
  place: Place,
  name: string,
): Promise<Profile> {
  const found = await findProfile(db, place, name)
  if (!found || !mayUseProject(caller, found.project)) throw notFound()
  return profileOf(found)
}

/** Refuses what is not there, what is another's, and what the key may not see, alike. */
export async function loadProfile(db: Db, caller: ListCaller, id: string): Promise<Profile> {
  const [row] = await db.all<ProfileRow>(
    `select ${columns} from ${current} where ${ofCaller} and p.id = ?`,
    ...[caller.organisationId, caller.memberId, id],
  )
  if (!row || !mayUseProject(caller, row.project)) throw notFound()
  return profileOf(row)
}

/** By name, without those that are archived. */
export async function listProfiles(
  db: Db,
  caller: ListCaller,
  { project = null, scope = null }: { project?: string | null; scope?: RegistryScope | null },
  page: { limit: number; after: { name: string; id: string } | null },
): Promise<Profile[]> {
  const { projects } = limitValues(caller)
  const rows = await db.all<ProfileRow>(
    `select ${columns} from ${current} where ${ofCaller} and (p.name, p.id) > (?, ?) and p.archived_at is null
       and (? is null or p.project in (select value from json_each(?)))
       and (? is null or p.project = ?) and (? is null or p.scope = ?)
     order by p.name, p.id limit ?`,
    ...[caller.organisationId, caller.memberId, page.after?.name ?? '', page.after?.id ?? ''],
    ...[projects, projects, project, project, scope, scope, page.limit],
  )
  return rows.map(profileOf)
}

/** Oldest first. Whether the profile is the caller's is asked before. */
export async function listProfileRevisions(
  db: Db,
  profileId: string,
  page: { limit: number; after: number | null },
): Promise<{ items: ProfileRevision[]; next: number | null }> {
  const rows = await db.all<
    Omit<ProfileRevision, keyof ProfileDefinition> & { definition: string }
  >(
    `select revision, sha256, created_by as createdBy, created_at as createdAt, definition
     from profile_revisions where profile_id = ? and revision > ? order by revision limit ?`,
    ...[profileId, page.after ?? 0, page.limit + 1],
  )
  const items = rows.slice(0, page.limit).map(({ definition, ...row }) => ({
    ...row,
    ...(JSON.parse(definition) as ProfileDefinition),
  }))
  return { items, next: rows.length > page.limit ? (items.at(-1)?.revision ?? null) : null }
}

/** Repeatable: the first time stays. */
export async function archiveProfile(
  db: Db,
  now: number,
  caller: ListCaller,
  id: string,
): Promise<Profile> {
  await loadProfile(db, caller, id)
  await db.batch([
    {
      sql: 'update profiles set archived_at = coalesce(archived_at, ?) where organisation_id = ? and id = ?',
      values: [now, caller.organisationId, id],
    },
  ])
  return await loadProfile(db, caller, id)
}
