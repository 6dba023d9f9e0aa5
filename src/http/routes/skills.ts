import { z } from '@hono/zod-openapi'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/skill.ts'
import {
  Skill,
  SkillAttach,
  SkillChange,
  SkillDetails,
  SkillPayload,
  SkillPayloadAsk,
  SkillQuery,
  SkillResolution,
  SkillResolve,
  SkillRollback,
  SkillStateChange,
  SkillTarget,
  SkillUpsert,
  SkillVersion,
  SkillVersionAdd,
} from '../../contract/skill.ts'
import * as usageSchemas from '../../contract/skill-usage.ts'
import { SkillUsage, SkillVerdict } from '../../contract/skill-usage.ts'
import { attachSkill, detachSkill } from '../../core/registry/skills/attachments.ts'
import { listSkillChanges } from '../../core/registry/skills/changes.ts'
import {
  listSkillVersions,
  loadSkill,
  mustFindSkillVersion,
} from '../../core/registry/skills/skills.ts'
import { listSkills, putSkill, viewSkill } from '../../core/registry/skills/skills.ts'
import { rollBackVersion } from '../../core/registry/skills/versions.ts'
import { listSkillUsage } from '../../core/registry/skills/usage.ts'
import { releaseSkillDraft, releaseSkillVersion } from '../../core/verbs/release-skill.ts'
import { resolvedSkillPayload, resolveSkills } from '../../core/verbs/resolve-skills.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { params } from '../kit/openapi.ts'
import { type Cursor, datedPage, pageBy, readPageNumber } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas, usageSchemas)

const tag = 'skills'
const at = '/v1/skills/{skillId}'
const OneVersion = params.skill.extend({
  version: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 31),
})
const OneAttachment = params.skill.extend(SkillTarget.shape)
const attachment = `${at}/attachments/{targetType}/{targetKey}`

export const skillRoutes = [
  route({
    id: 'putSkill',
    method: 'put',
    path: '/v1/skills',
    summary: 'Register a skill: one per project, scope and name',
    description: 'The same name again is the same skill, and its description is replaced.',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: SkillUpsert,
    answers: ok(Skill, 'The skill'),
    refuses: ['invalid_request', 'unprocessable'],
    answer: ({ deps, caller, body }) => putSkill(deps.db(), deps.crypto, deps.now(), caller, body),
  }),

  route({
    id: 'listSkills',
    method: 'get',
    path: '/v1/skills',
    summary: 'List the skills of the projects and your own, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: SkillQuery,
    answers: ok(listSchema(Skill), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) => listSkills(deps.db(), caller, query, { limit, before })),
  }),

  route({
    id: 'resolveSkills',
    method: 'post',
    path: '/v1/skills/resolve',
    summary: 'Which skills an agent gets, in order and with every reason; nothing is written',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: SkillResolve,
    answers: ok(SkillResolution, 'What it gets, and what was skipped'),
    refuses: ['forbidden'],
    answer: ({ deps, caller, body }) => resolveSkills(deps.db(), caller, body),
  }),

  route({
    id: 'getSkillPayload',
    method: 'post',
    path: '/v1/skills/payload',
    summary: 'The same with the texts that can be given; nothing is written or fetched',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: SkillPayloadAsk,
    answers: ok(SkillPayload, 'Texts, or why there is none'),
    refuses: ['forbidden', 'not_found'],
    answer: ({ deps, caller, body }) => resolvedSkillPayload(deps, caller, body),
  }),

  route({
    id: 'getSkill',
    method: 'get',
    path: at,
    summary: 'Get a skill with its current version and its attachments',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.skill,
    answers: ok(SkillDetails, 'The skill'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => viewSkill(deps.db(), caller, params.skillId),
  }),

  route({
    id: 'addSkillVersion',
    method: 'post',
    path: `${at}/versions`,
    summary: 'Add a version: a draft, or active and current at once',
    description: 'What the newest version says already is that version.',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: params.skill,
    body: SkillVersionAdd,
    answers: ok(SkillVersion, 'The version'),
    refuses: ['forbidden', 'not_found', 'unprocessable', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, params, body }) =>
      releaseSkillVersion(promotionPorts(deps), caller, params.skillId, body),
  }),

  route({
    id: 'listSkillVersions',
    method: 'get',
    path: `${at}/versions`,
    summary: 'List the versions of a skill, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.skill,
    query: PageQuery,
    answers: ok(listSchema(SkillVersion), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    async answer({ deps, caller, params, query }) {
      const skill = await loadSkill(deps.db(), caller, params.skillId)
      return await pageBy(query, versionCursor, (before, limit) =>
        listSkillVersions(deps.db(), skill, { limit, before }),
      )
    },
  }),

  route({
    id: 'getSkillVersion',
    method: 'get',
    path: `${at}/versions/{version}`,
    summary: 'Get one version of a skill',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: OneVersion,
    answers: ok(SkillVersion, 'The version'),
    refuses: ['not_found'],
    async answer({ deps, caller, params: { skillId, version } }) {
      const skill = await loadSkill(deps.db(), caller, skillId)
      return await mustFindSkillVersion(deps.db(), skill, version)
    },
  }),

  route({
    id: 'changeSkillVersion',
    method: 'post',
    path: `${at}/versions/{version}/state`,
    summary: 'Activate, deprecate or archive a version',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: OneVersion,
    body: SkillStateChange,
    answers: ok(SkillVersion, 'The version'),
    refuses: ['forbidden', 'not_found', 'wrong_state', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, params, body }) =>
      releaseSkillDraft(promotionPorts(deps), caller, params, body),
  }),

  route({
    id: 'rollBackSkill',
    method: 'post',
    path: `${at}/rollback`,
    summary: 'Make an earlier version current again',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: params.skill,
    body: SkillRollback,
    answers: ok(Skill, 'The skill'),
    refuses: ['forbidden', 'not_found', 'wrong_state'],
    answer: ({ deps, caller, params, body }) =>
      rollBackVersion(deps.db(), deps.now(), caller, params.skillId, body),
  }),

  route({
    id: 'attachSkill',
    method: 'put',
    path: attachment,
    summary: 'Attach a skill to an agent, a subagent, a phase or an adapter',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: OneAttachment,
    body: SkillAttach,
    bodyMayBeMissing: true,
    answers: ok(SkillDetails, 'The skill'),
    refuses: ['forbidden', 'not_found', 'wrong_state'],
    answer: ({ deps, caller, params, body }) =>
      attachSkill(deps.db(), deps.now(), caller, params, body.version ?? null),
  }),

  route({
    id: 'detachSkill',
    method: 'delete',
    path: attachment,
    summary: 'Detach a skill; what is not attached stays so',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: OneAttachment,
    answers: ok(SkillDetails, 'The skill'),
    refuses: ['forbidden', 'not_found'],
    answer: ({ deps, caller, params }) => detachSkill(deps.db(), deps.now(), caller, params),
  }),

  route({
    id: 'listSkillUsage',
    method: 'get',
    path: `${at}/usage`,
    summary: 'What came of a skill, run by run; newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.skill,
    query: PageQuery,
    answers: ok(listSchema(SkillUsage), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    async answer({ deps, caller, params: { skillId }, query }) {
      await loadSkill(deps.db(), caller, skillId)
      return await datedPage(query, (before, limit) =>
        listSkillUsage(deps.db(), caller, skillId, { limit, before }),
      )
    },
  }),

  route({
    id: 'judgeSkill',
    method: 'post',
    path: '/v1/runs/{runId}/skills',
    summary: 'Say whether a skill helped, failed or made no difference in a run',
    tag,
    guard: 'write',
    params: params.run,
    body: SkillVerdict,
    answers: ok(SkillUsage, 'The use'),
    refuses: ['not_found', 'unprocessable'],
    answer: ({ session, caller, params, body }) => session.skills.judge(caller, params.runId, body),
  }),

  route({
    id: 'listSkillChanges',
    method: 'get',
    path: `${at}/changes`,
    summary: 'Who changed what sessions get of a skill, and why; newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: params.skill,
    query: PageQuery,
    answers: ok(listSchema(SkillChange), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    async answer({ deps, caller, params: { skillId }, query }) {
      await loadSkill(deps.db(), caller, skillId)
      return await pageBy(query, changeCursor, (before, limit) =>
        listSkillChanges(deps.db(), skillId, { limit, before }),
      )
    },
  }),
]

const versionCursor: Cursor<SkillVersion, number> = {
  read: readPageNumber,
  write: ({ version }) => String(version),
}

const changeCursor: Cursor<SkillChange, number> = {
  read: readPageNumber,
  write: ({ seq }) => String(seq),
}
