import { z } from 'zod'
import { Project } from './project.ts'

/** Whose row of a registry it is: the whole project's, or one member's own. One name may be in both; neither replaces the other. */
export const RegistryScope = z.enum(['project', 'personal'])
export type RegistryScope = z.infer<typeof RegistryScope>

/** Where a row of a registry belongs, as callers say it. A personal row is that of the member who asks. */
export const RegistryPlace = z.strictObject({
  project: Project,
  scope: RegistryScope.default('project'),
})
export type RegistryPlace = z.infer<typeof RegistryPlace>
