import { z } from '@hono/zod-openapi'
import * as configurationSchemas from '../../contract/configuration.ts'
import {
  Configuration,
  ConfigurationCreate,
  ConfigurationRow,
  ConfigurationUpdate,
} from '../../contract/configuration.ts'
import { PageQuery } from '../../contract/page.ts'
import * as warmPoolSchemas from '../../contract/warm-pool.ts'
import { WarmPoolView } from '../../contract/warm-pool.ts'
import {
  listConfigurations,
  loadConfiguration,
} from '../../core/registry/configurations/configurations.ts'
import { createConfiguration } from '../../core/verbs/create-configuration.ts'
import { deleteConfiguration } from '../../core/verbs/delete-configuration.ts'
import { updateConfiguration } from '../../core/verbs/update-configuration.ts'
import { viewWarmPool } from '../../core/verbs/view-warm-pool.ts'
import { params } from '../kit/openapi.ts'
import { datedPage } from '../kit/paging.ts'
import { created, gone, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(configurationSchemas, warmPoolSchemas)

const tag = 'configurations'
const ListQuery = PageQuery.extend({ project: z.string().max(64).optional() })

export const configurationRoutes = [
  route({
    id: 'createConfiguration',
    method: 'post',
    path: '/v1/configurations',
    summary: 'Create a configuration',
    tag,
    guard: 'write',
    body: ConfigurationCreate,
    answers: created(Configuration, 'The configuration'),
    location: ({ id }) => `/v1/configurations/${id}`,
    refuses: ['wrong_state', 'unprocessable'],
    answer: ({ deps, caller, body }) => createConfiguration(deps, caller, body),
  }),

  route({
    id: 'listConfigurations',
    method: 'get',
    path: '/v1/configurations',
    summary: 'List the configurations of the organisation, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: ListQuery,
    answers: ok(listSchema(ConfigurationRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listConfigurations(deps.db(), caller, {
          ...{ project: query.project ?? null, before, limit },
        }),
      ),
  }),

  route({
    id: 'getConfiguration',
    method: 'get',
    path: '/v1/configurations/{configurationId}',
    summary: 'Get a configuration',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.configuration,
    answers: ok(Configuration, 'The configuration'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => loadConfiguration(deps.db(), { ...caller, ...params }),
  }),

  route({
    id: 'updateConfiguration',
    method: 'patch',
    path: '/v1/configurations/{configurationId}',
    summary: 'Change a configuration: a field that is given is replaced whole',
    tag,
    guard: 'write',
    params: params.configuration,
    body: ConfigurationUpdate,
    answers: ok(Configuration, 'The configuration'),
    refuses: ['not_found', 'wrong_state', 'unprocessable'],
    answer: ({ deps, caller, params, body }) =>
      updateConfiguration(deps, { ...caller, ...params }, body),
  }),

  route({
    id: 'deleteConfiguration',
    method: 'delete',
    path: '/v1/configurations/{configurationId}',
    summary: 'Delete a configuration with its secrets',
    tag,
    guard: 'write',
    params: params.configuration,
    answers: gone('It is gone'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => deleteConfiguration(deps, { ...caller, ...params }),
  }),

  route({
    id: 'getWarmPool',
    method: 'get',
    path: '/v1/configurations/{configurationId}/warm-pool',
    summary: 'How many sandboxes wait for sessions of a configuration',
    tag,
    guard: 'read',
    params: params.configuration,
    answers: ok(WarmPoolView, 'The pool'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => viewWarmPool(deps, { ...caller, ...params }),
  }),
]
