import { z } from 'zod'
import { SessionCreate } from './session.ts'
import { RegistryScope } from './session-memory.ts'

export { RegistryScope }

/** Where a row of a registry belongs, as callers say it. A personal row is that of the member who asks. */
export const RegistryPlace = z.strictObject({
  project: SessionCreate.shape.project,
  scope: RegistryScope.default('project'),
})
export type RegistryPlace = z.infer<typeof RegistryPlace>
