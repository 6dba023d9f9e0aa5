import * as schemas from '../../contract/usage.ts'
import { Usage, UsageQuery } from '../../contract/usage.ts'
import { listUsage } from '../../core/registry/usage.ts'
import { type Cursor, pageBy } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const usageCursor: Cursor<Usage, string> = {
  read: (cursor) => /^u\.([^]*)$/.exec(cursor)?.[1] ?? null,
  write: ({ id }) => `u.${id ?? ''}`,
}

export const usageRoutes = [
  route({
    id: 'listUsage',
    method: 'get',
    path: '/v1/usage',
    summary: 'What members, projects or models have used within some days',
    description: 'From libSQL, so what was just used may come a moment later.',
    tag: 'budgets',
    guard: 'read',
    limitedKeys: 'obeyed',
    query: UsageQuery,
    answers: ok(listSchema(Usage), 'One page, by id'),
    refuses: ['invalid_request', 'storage_unavailable'],
    answer: ({ deps, caller, query: { by, since, until, ...page } }) =>
      pageBy(page, usageCursor, (after, limit) =>
        listUsage(deps.db(), caller, { by, since, until, after, limit, now: deps.now() }),
      ),
  }),
]
