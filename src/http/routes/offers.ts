import * as schemas from '../../contract/offered-ability.ts'
import { OfferedAbilities } from '../../contract/offered-ability.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { params } from '../kit/openapi.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas)

export const offerRoutes = [
  route({
    id: 'listSessionAbilities',
    method: 'get',
    path: '/v1/sessions/{sessionId}/abilities',
    summary: 'List the abilities that a session offers: stored ones and those of its workspace',
    tag: 'abilities',
    guard: 'read',
    params: params.session,
    answers: ok(OfferedAbilities, 'All of them'),
    refuses: ['not_found'],
    answer: async ({ session, caller }) => ({ items: await session.offers.list(caller) }),
  }),
]
