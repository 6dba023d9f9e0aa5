import { AppError } from '../../contract/error.ts'
import type { KeyLimits } from '../../contract/key.ts'
import type { RegistryPlace } from '../../contract/registry-scope.ts'

/**
 * Where a row of a registry is kept: part of every unique key, so that no name of another organisation, project or member
 * is ever seen. `memberId` is empty for what the whole project shares.
 */
export interface Place extends RegistryPlace {
  organisationId: string
  memberId: string
}

export function placeOf(
  caller: { organisationId: string; memberId: string },
  { project, scope }: RegistryPlace,
): Place {
  const memberId = scope === 'personal' ? caller.memberId : ''
  return { organisationId: caller.organisationId, project, scope, memberId }
}

/** Of a caller: what its key may see. Null or missing: the whole organisation. */
export interface Limited {
  limits?: KeyLimits | null
}

/** Whether the caller may see and change what belongs to the project. What it may not is not there for it: 404. */
export const mayUseProject = ({ limits }: Limited, project: string): boolean =>
  limits?.projects?.includes(project) ?? true

/** For what the caller itself wants to make there. */
export function mustMayUsePlace(caller: Limited, project: string): void {
  if (mayUseProject(caller, project)) return
  const names = caller.limits?.projects?.map((name) => `"${name}"`).join(', ')
  throw new AppError('forbidden', `This API key is not for project "${project}"`, [
    { path: 'project', message: `Must be one of ${names}` },
  ])
}

/** Whether a session is within the limits of the caller's key. */
export function maySeePlace(
  { limits = null, memberId = null }: Limited & { memberId?: string | null },
  session: { project: string; memberId: string | null },
): boolean {
  const isOwn = memberId !== null && memberId === session.memberId
  return mayUseProject({ limits }, session.project) && (isOwn || !limits?.ownSessions)
}

/** Whoever asks for a list. */
export interface ListCaller extends Limited {
  organisationId: string
  memberId: string
}

/** The same for the lists, as values of their SQL: the projects in JSON, and the member that made the session; null: all. */
export const limitValues = ({
  limits,
  memberId,
}: ListCaller): { projects: string | null; member: string | null } => ({
  projects: limits?.projects ? JSON.stringify(limits.projects) : null,
  member: limits?.ownSessions ? memberId : null,
})
