import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/ability.ts'
import { AbilityCheck, AbilityChecked } from '../../contract/ability.ts'
import { checkAbility } from '../../core/abilities/definition.ts'
import { nameSchemas, schemasPath } from '../kit/openapi-schemas.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas)
// The text of an ability is described like the document itself.
z.globalRegistry.add(AbilityCheck.shape.source, {
  ...AbilityCheck.shape.source.meta(),
  contentMediaType: 'application/yaml',
  contentSchema: { $ref: `${schemasPath}AbilityDocument` },
})

const tag = 'abilities'

export const abilityRoutes = [
  route({
    id: 'validateAbility',
    method: 'post',
    path: '/v1/abilities/validate',
    summary: 'Read an ability and name every mistake in it with its place; nothing is stored',
    tag,
    guard: 'read',
    body: AbilityCheck,
    answers: ok(AbilityChecked, 'Whether it can run, and what is wrong'),
    refuses: [],
    answer: async ({ body }) => checkAbility(body),
  }),
]
