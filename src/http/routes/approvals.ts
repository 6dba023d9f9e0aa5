import * as schemas from '../../contract/approval.ts'
import {
  approvalAnswer,
  type Approval,
  ApprovalResolve,
  ApprovalRevoke,
  ApprovalState,
  InboxEntry,
  ShownApproval,
} from '../../contract/approval.ts'
import { PageQuery } from '../../contract/page.ts'
import { listApprovalInbox } from '../../core/registry/approvals.ts'
import type { AppDeps } from '../kit/deps.ts'
import { params } from '../kit/openapi.ts'
import { datedPage } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'approvals'

export const approvalRoutes = [
  route({
    id: 'listApprovals',
    method: 'get',
    path: '/v1/approvals',
    summary: "The organisation's inbox: what waits for a person, newest first",
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: PageQuery.extend({ state: ApprovalState.default('pending') }),
    answers: ok(listSchema(InboxEntry), 'One page, as far as the ledger has it'),
    refuses: ['storage_unavailable'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (after, limit) =>
        listApprovalInbox(deps.db(), caller, {
          ...{ state: query.state, limit, after, now: deps.now() },
          publicUrl: deps.config.publicUrl,
        }),
      ),
  }),

  route({
    id: 'listSessionApprovals',
    method: 'get',
    path: '/v1/sessions/{sessionId}/approvals',
    summary: 'The approvals of a session, newest first',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(listSchema(ShownApproval), 'The newest 200'),
    refuses: ['not_found'],
    answer: async ({ deps, session, caller }) =>
      all(deps, await session.approvals.list(caller, null)),
  }),

  route({
    id: 'listRunApprovals',
    method: 'get',
    path: '/v1/runs/{runId}/approvals',
    summary: 'The approvals of a run, newest first',
    tag,
    guard: 'read',
    params: params.run,
    answers: ok(listSchema(ShownApproval), 'The newest 200'),
    refuses: ['not_found'],
    answer: async ({ deps, session, caller, params: { runId } }) =>
      all(deps, await session.approvals.list(caller, runId)),
  }),

  route({
    id: 'getApproval',
    method: 'get',
    path: '/v1/approvals/{approvalId}',
    summary: 'Get an approval',
    tag,
    guard: 'read',
    params: params.approval,
    answers: ok(ShownApproval, 'The approval'),
    refuses: ['not_found'],
    answer: async ({ deps, session, caller, params: { approvalId } }) =>
      shown(deps, await session.approvals.get(caller, approvalId)),
  }),

  route({
    id: 'resolveApproval',
    method: 'post',
    path: '/v1/approvals/{approvalId}/resolve',
    summary: 'Approve, reject or cancel; once. Below its quorum an approval stays pending',
    tag,
    guard: 'approve',
    params: params.approval,
    body: ApprovalResolve,
    answers: ok(ShownApproval, 'The approval'),
    refuses: ['not_found', 'wrong_state', 'forbidden'],
    answer: async ({ deps, session, caller, params: { approvalId }, body }) =>
      shown(deps, await session.approvals.resolve(caller, approvalId, body)),
  }),

  route({
    id: 'revokeApproval',
    method: 'post',
    path: '/v1/approvals/{approvalId}/revoke',
    summary: 'End what was remembered: the operation is asked about again',
    tag,
    guard: 'approve',
    params: params.approval,
    body: ApprovalRevoke,
    answers: ok(ShownApproval, 'The approval'),
    refuses: ['not_found', 'wrong_state'],
    answer: async ({ deps, session, caller, params: { approvalId }, body }) =>
      shown(deps, await session.approvals.revoke(caller, approvalId, body)),
  }),
]

const all = (deps: AppDeps, approvals: Approval[]) => ({
  items: approvals.map((approval) => shown(deps, approval)),
  nextCursor: null,
})

/** With where and until when to answer it. */
const shown = ({ now, config }: AppDeps, approval: Approval): ShownApproval => ({
  ...approval,
  ...approvalAnswer(now(), config.publicUrl, approval),
})
