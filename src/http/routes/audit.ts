import * as schemas from '../../contract/audit.ts'
import { AuditEntry } from '../../contract/audit.ts'
import { PageQuery } from '../../contract/page.ts'
import { listAudit } from '../../core/registry/audit.ts'
import { datedPage } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

export const auditRoutes = [
  route({
    id: 'listAudit',
    method: 'get',
    path: '/v1/audit',
    summary: 'What was done to members and keys of the organisation, newest first',
    tag: 'members',
    guard: 'admin',
    query: PageQuery,
    answers: ok(listSchema(AuditEntry), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listAudit(deps.db(), caller.organisationId, { limit, before }),
      ),
  }),
]
