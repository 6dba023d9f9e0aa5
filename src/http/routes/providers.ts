import { z } from '@hono/zod-openapi'
import { webhookTargetRefusal } from '../../adapters/webhook-target.ts'
import * as schemas from '../../contract/provider.ts'
import {
  E2bCredentials,
  ModalCredentials,
  OfferedProvider,
  Provider,
  ProviderList,
  ProviderReport,
  RemoteProvider,
} from '../../contract/provider.ts'
import { checkProvider } from '../../core/verbs/check-provider.ts'
import { deleteProviderCredentials } from '../../core/verbs/delete-provider-credentials.ts'
import { listProviders } from '../../core/verbs/list-providers.ts'
import { setProviderCredentials } from '../../core/verbs/set-provider-credentials.ts'
import { gone, ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'providers'
const WhileLive = z.strictObject({
  whileLive: z
    .enum(['true', 'false'])
    .default('false')
    .describe(
      'true: also while sandboxes live. With the credentials of another account they cannot be reached any more, and end by themselves within an hour',
    ),
})

/** Credentials come in and never go out. */
export const providerRoutes = [
  route({
    id: 'listProviders',
    method: 'get',
    path: '/v1/providers',
    summary: 'List the sandbox providers, and whose credentials each uses',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    answers: ok(ProviderList, 'The providers'),
    refuses: [],
    answer: async ({ deps, caller }) => ({
      items: await listProviders(deps, caller.organisationId),
    }),
  }),

  route({
    id: 'setE2bCredentials',
    method: 'put',
    path: '/v1/providers/e2b/credentials',
    summary: "Set the organisation's own E2B account",
    tag,
    guard: 'admin',
    query: WhileLive,
    body: E2bCredentials,
    answers: ok(Provider, 'The provider'),
    refuses: ['invalid_request', 'wrong_state', 'unprocessable'],
    answer: ({ deps, caller, query, body: fields }) =>
      setProviderCredentials(deps, caller, 'e2b', { fields, whileLive: isTrue(query) }),
  }),

  route({
    id: 'setModalCredentials',
    method: 'put',
    path: '/v1/providers/modal/credentials',
    summary: "Set the organisation's own Modal app",
    tag,
    guard: 'admin',
    query: WhileLive,
    body: ModalCredentials,
    answers: ok(Provider, 'The provider'),
    refuses: ['invalid_request', 'wrong_state', 'unprocessable'],
    answer: ({ deps, caller, query, body: fields }) =>
      setProviderCredentials(deps, caller, 'modal', { fields, whileLive: isTrue(query) }),
  }),

  route({
    id: 'deleteProviderCredentials',
    method: 'delete',
    path: '/v1/providers/{name}/credentials',
    summary: "Delete the organisation's own credentials: from then on the deployment's count",
    tag,
    guard: 'admin',
    params: z.object({ name: RemoteProvider }),
    query: WhileLive,
    answers: gone('They are gone'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ deps, caller, params: { name: provider }, query }) =>
      deleteProviderCredentials(deps, { ...caller, provider }, isTrue(query)),
  }),

  route({
    id: 'checkProvider',
    method: 'post',
    path: '/v1/providers/{name}/check',
    summary: 'What works at a provider, and what to do about what does not. Starts nothing',
    tag,
    guard: 'admin',
    params: z.object({ name: OfferedProvider }),
    answers: ok(ProviderReport, 'One result per check'),
    refuses: ['not_found'],
    answer: ({ deps: { providers, config }, caller, params: { name } }) =>
      checkProvider({ providers, config, unreachable }, name, caller.organisationId),
  }),
]

const isTrue = ({ whileLive }: z.output<typeof WhileLive>) => whileLive === 'true'

/** Loopback does not count: the sandboxes are elsewhere. */
const unreachable = (url: string) => webhookTargetRefusal(url, false)
