import * as schemas from '../../contract/member.ts'
import { Member, MemberCreate } from '../../contract/member.ts'
import { PageQuery } from '../../contract/page.ts'
import { disableMember, listMembers, loadMember } from '../../core/registry/members.ts'
import { createMember } from '../../core/verbs/create-member.ts'
import { params } from '../kit/openapi.ts'
import { datedPage } from '../kit/paging.ts'
import { created, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'members'

export const memberRoutes = [
  route({
    id: 'createMember',
    method: 'post',
    path: '/v1/members',
    summary: 'Create a member: a person or system that keys can belong to',
    tag,
    guard: 'admin',
    body: MemberCreate,
    idempotent: true,
    answers: created(Member, 'The member'),
    location: ({ id }) => `/v1/members/${id}`,
    refuses: ['key_conflict', 'wrong_state'],
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createMember(deps, caller, body, idempotencyKey),
  }),

  route({
    id: 'listMembers',
    method: 'get',
    path: '/v1/members',
    summary: 'List the members of the organisation, oldest first',
    tag,
    guard: 'admin',
    query: PageQuery,
    answers: ok(listSchema(Member), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (after, limit) =>
        listMembers(deps.db(), caller.organisationId, { limit, after }),
      ),
  }),

  route({
    id: 'getMember',
    method: 'get',
    path: '/v1/members/{memberId}',
    summary: 'Get a member',
    tag,
    guard: 'admin',
    params: params.member,
    answers: ok(Member, 'The member'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params: { memberId } }) =>
      loadMember(deps.db(), caller.organisationId, memberId),
  }),

  route({
    id: 'disableMember',
    method: 'post',
    path: '/v1/members/{memberId}/disable',
    summary: 'Disable a member for good: its keys are revoked, everywhere within 30 seconds',
    tag,
    guard: 'admin',
    params: params.member,
    answers: ok(Member, 'The member'),
    refuses: ['not_found', 'wrong_state'],
    async answer({ deps, guards, caller, params: { memberId } }) {
      const { organisationId } = caller
      const order = { organisationId, memberId, maker: caller }
      const member = await disableMember(deps.db(), deps.crypto, deps.now(), order)
      guards.forgetMember(memberId)
      return member
    },
  }),
]
