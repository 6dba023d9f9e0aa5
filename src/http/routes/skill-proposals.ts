import * as schemas from '../../contract/skill-proposal.ts'
import {
  SkillProposal,
  SkillProposalAct,
  SkillProposalQuery,
  SkillProposalResolve,
  SkillProposalRow,
  SkillPropose,
} from '../../contract/skill-proposal.ts'
import {
  cancelProposal,
  resolveProposal,
  submitProposal,
} from '../../core/registry/skills/proposal-acts.ts'
import { listProposals, viewProposal } from '../../core/registry/skills/proposals.ts'
import { proposeSkill } from '../../core/verbs/propose-skill.ts'
import { releaseSkillProposal } from '../../core/verbs/release-skill.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { params } from '../kit/openapi.ts'
import { datedPage } from '../kit/paging.ts'
import { created, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'skills'
const at = '/v1/skill-proposals/{proposalId}'

export const skillProposalRoutes = [
  route({
    id: 'proposeSkill',
    method: 'post',
    path: '/v1/skills/{skillId}/proposals',
    summary: 'Propose a change of a skill; the skill stays as it is',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: params.skill,
    body: SkillPropose,
    idempotent: true,
    answers: created(SkillProposal, 'The proposal'),
    location: ({ id }) => `/v1/skill-proposals/${id}`,
    refuses: ['key_conflict', 'not_found', 'wrong_state', 'unprocessable'],
    answer: ({ deps, caller, params, body, idempotencyKey }) =>
      proposeSkill(deps, caller, params.skillId, body, idempotencyKey),
  }),

  route({
    id: 'listSkillProposals',
    method: 'get',
    path: '/v1/skill-proposals',
    summary: 'List the proposals for skills that you see, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: SkillProposalQuery,
    answers: ok(listSchema(SkillProposalRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listProposals(deps.db(), caller, query, { limit, before }),
      ),
  }),

  route({
    id: 'getSkillProposal',
    method: 'get',
    path: at,
    summary: 'Get a proposal: its text, why, what changes, and who has said what',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.skillProposal,
    answers: ok(SkillProposal, 'The proposal'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => viewProposal(deps.db(), caller, params.proposalId),
  }),

  route({
    id: 'submitSkillProposal',
    method: 'post',
    path: `${at}/submit`,
    summary: 'Ask for approval of a draft',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: params.skillProposal,
    answers: ok(SkillProposal, 'The proposal'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ deps, caller, params }) => submitProposal(deps.db(), caller, params.proposalId),
  }),

  route({
    id: 'resolveSkillProposal',
    method: 'post',
    path: `${at}/resolve`,
    summary: 'Approve or reject exactly what the hash names',
    tag,
    guard: 'approve',
    limitedKeys: 'obeyed',
    params: params.skillProposal,
    body: SkillProposalResolve,
    answers: ok(SkillProposal, 'The proposal: submitted until its quorum is reached'),
    refuses: ['forbidden', 'not_found', 'wrong_state'],
    answer: ({ deps, caller, params, body }) =>
      resolveProposal(deps.db(), deps.now(), caller, params.proposalId, body),
  }),

  route({
    id: 'cancelSkillProposal',
    method: 'post',
    path: `${at}/cancel`,
    summary: 'Take a proposal back that was not applied',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: params.skillProposal,
    body: SkillProposalAct,
    answers: ok(SkillProposal, 'The proposal'),
    refuses: ['forbidden', 'not_found', 'wrong_state'],
    answer: ({ deps, caller, params, body }) =>
      cancelProposal(deps.db(), deps.now(), caller, params.proposalId, body.reason),
  }),

  route({
    id: 'applySkillProposal',
    method: 'post',
    path: `${at}/apply`,
    summary: 'Make an approved proposal the current version',
    tag,
    guard: 'approve',
    limitedKeys: 'obeyed',
    params: params.skillProposal,
    body: SkillProposalAct,
    answers: ok(SkillProposal, 'The proposal, with the version that it became'),
    refuses: ['forbidden', 'not_found', 'wrong_state', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, params, body }) =>
      releaseSkillProposal(promotionPorts(deps), caller, params.proposalId, body.reason),
  }),
]
