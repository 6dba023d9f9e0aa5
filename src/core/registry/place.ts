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
