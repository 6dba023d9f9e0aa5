import { z } from '@hono/zod-openapi'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/phase.ts'
import {
  ChangeName,
  ChangePlace,
  ChangeRow,
  ChangeStatus,
  Phase,
  PhaseApproval,
  PhaseApprove,
  PhaseArtifact,
  PhaseImport,
  PhaseImported,
  PhaseReadiness,
  PhaseSave,
  WholePhaseArtifact,
  Workflow,
} from '../../contract/phase.ts'
import {
  approvePhaseArtifact,
  loadPhaseArtifact,
  loadPhaseReadiness,
  loadPhaseStatus,
  type Saver,
  shownPhase,
  type ChangeKey,
  listPhaseChanges,
  listPhaseRevisions,
} from '../../core/registry/phases/phases.ts'
import { workflowOf } from '../../core/registry/phases/rules.ts'
import { mustMayUsePlace } from '../../core/registry/place.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import { importPhaseArtifacts, savePhaseArtifact } from '../../core/verbs/save-phase-artifact.ts'
import { errorDetail, invalidRequestError } from '../kit/errors.ts'
import { type Cursor, pageBy, readPageNumber } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'phases'
// Any text here: a wrong phase is not "not found" but a mistake that is worth an explanation.
const ChangeParams = z.object({ change: z.string() })
const PhaseParams = ChangeParams.extend({ phase: z.string() })
const ChangeNames = z.object({ change: ChangeName })
const PhaseNames = ChangeNames.extend({ phase: Phase })
const ChangePage = PageQuery.extend(ChangePlace.shape)
const ArtifactQuery = ChangePlace.extend({
  revision: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 31)
    .optional()
    .describe('Default: the newest'),
})

/** The phases of a change (SDD): state that is asked for, and that nothing here advances by itself. */
export const phaseRoutes = [
  route({
    id: 'listChanges',
    method: 'get',
    path: '/v1/changes',
    summary: 'List the changes of a project by name, with the phases that have artifacts',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: ChangePage,
    answers: ok(listSchema(ChangeRow), 'One page'),
    refuses: ['invalid_request', 'forbidden'],
    answer: ({ deps, caller, query }) =>
      pageBy(query, changeCursor, (after, limit) =>
        listPhaseChanges(deps.db(), keyOf(caller, query, ''), { limit, after }),
      ),
  }),

  route({
    id: 'importPhaseArtifacts',
    method: 'post',
    path: '/v1/changes/import',
    summary: 'Save artifacts of many phases at once, all or none; a dry run says what would happen',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: PhaseImport,
    answers: ok(PhaseImported, 'What happened to each, in order'),
    refuses: ['forbidden', 'unprocessable'],
    answer({ deps, caller, body }) {
      mustMayUsePlace(caller, body.project)
      return importPhaseArtifacts(deps, saverOf(caller), body)
    },
  }),

  route({
    id: 'getChange',
    method: 'get',
    path: '/v1/changes/{change}',
    summary: 'Which phases of a change are there, which are missing, and which is next',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: ChangeParams,
    query: ChangePlace,
    answers: ok(
      ChangeStatus,
      'The status; of a change that nobody has begun everything is missing',
    ),
    refuses: ['invalid_request', 'forbidden'],
    answer: ({ deps, caller, params, query }) =>
      loadPhaseStatus(deps.db(), keyOf(caller, query, read(ChangeNames, params).change)),
  }),

  route({
    id: 'getWorkflow',
    method: 'get',
    path: '/v1/changes/{change}/workflow',
    summary: 'The phases of a change in their order, with topic keys and prerequisites',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: ChangeParams,
    answers: ok(Workflow, 'The same for every change'),
    refuses: ['invalid_request'],
    answer: ({ params }) => workflowOf(read(ChangeNames, params).change),
  }),

  route({
    id: 'savePhaseArtifact',
    method: 'put',
    path: '/v1/changes/{change}/phases/{phase}',
    summary: 'Save the artifact of a phase, as its next revision',
    description: 'The same content again is the same revision. Nothing is started by it.',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: PhaseParams,
    body: PhaseSave,
    answers: ok(PhaseArtifact, 'The newest revision'),
    refuses: ['invalid_request', 'forbidden', 'wrong_state'],
    answer({ deps, caller, params, body }) {
      mustMayUsePlace(caller, body.project)
      return savePhaseArtifact(deps, saverOf(caller), read(PhaseNames, params), body)
    },
  }),

  route({
    id: 'getPhaseArtifact',
    method: 'get',
    path: '/v1/changes/{change}/phases/{phase}',
    summary: 'Read an artifact whole, with what was said of this revision',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: PhaseParams,
    query: ArtifactQuery,
    answers: ok(WholePhaseArtifact, 'The artifact'),
    refuses: ['invalid_request', 'not_found', 'forbidden'],
    answer({ deps, caller, params, query }) {
      const { change, phase } = read(PhaseNames, params)
      return loadPhaseArtifact(
        deps.db(),
        keyOf(caller, query, change),
        phase,
        query.revision ?? null,
      )
    },
  }),

  route({
    id: 'listPhaseRevisions',
    method: 'get',
    path: '/v1/changes/{change}/phases/{phase}/revisions',
    summary: 'List the revisions of an artifact, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: PhaseParams,
    query: ChangePage,
    answers: ok(listSchema(PhaseArtifact), 'One page'),
    refuses: ['invalid_request', 'forbidden'],
    async answer({ deps, caller, params, query }) {
      const { change, phase } = read(PhaseNames, params)
      const key = keyOf(caller, query, change)
      return await pageBy(query, revisionCursor, async (before, limit) => {
        const rows = await listPhaseRevisions(deps.db(), key, phase, { limit, before })
        return rows.map((row) => shownPhase(key, row))
      })
    },
  }),

  route({
    id: 'getPhaseReadiness',
    method: 'get',
    path: '/v1/changes/{change}/phases/{phase}/readiness',
    summary: 'Whether a phase may be worked on, what is missing, and what to do next',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: PhaseParams,
    query: ChangePlace,
    answers: ok(PhaseReadiness, 'Ready or not'),
    refuses: ['invalid_request', 'forbidden'],
    answer({ deps, caller, params, query }) {
      const { change, phase } = read(PhaseNames, params)
      return loadPhaseReadiness(deps.db(), keyOf(caller, query, change), phase)
    },
  }),

  route({
    id: 'approvePhaseArtifact',
    method: 'post',
    path: '/v1/changes/{change}/phases/{phase}/approvals',
    summary: 'Approve or reject the newest revision of an artifact, by its hash',
    tag,
    guard: 'approve',
    limitedKeys: 'obeyed',
    params: PhaseParams,
    body: PhaseApprove,
    answers: ok(PhaseApproval, "The member's word"),
    refuses: ['invalid_request', 'not_found', 'forbidden', 'wrong_state'],
    answer({ deps, caller, params, body: { project, ...word } }) {
      const { change, phase } = read(PhaseNames, params)
      const key = keyOf(caller, { project }, change)
      const { keyId, memberId: keyMemberId } = caller
      const voter = { keyId, keyMemberId, ...countedAs(caller) }
      return approvePhaseArtifact(deps.db(), deps.now(), voter, key, phase, word)
    },
  }),
]

function read<S extends z.ZodType>(schema: S, names: unknown): z.output<S> {
  const parsed = schema.safeParse(names)
  if (parsed.success) return parsed.data
  throw invalidRequestError(parsed.error.issues.map(errorDetail))
}

function keyOf(caller: Caller, { project }: { project: string }, change: string): ChangeKey {
  mustMayUsePlace(caller, project)
  return { organisationId: caller.organisationId, project, change }
}

/** A new key is its maker's: nobody approves the own work through a member of the own making. */
const countedAs = ({ countsAs, memberId, owner }: Caller) => {
  const { memberId: id, owner: name } = countsAs ?? { memberId, owner }
  return { memberId: id, owner: name }
}

const saverOf = (caller: Caller): Saver => {
  const { organisationId, keyId } = caller
  return { organisationId, savedBy: keyId, memberId: countedAs(caller).memberId }
}

const changeCursor: Cursor<ChangeRow, string> = {
  read: (cursor) => /^c\.([a-z0-9][a-z0-9._-]{0,99})$/.exec(cursor)?.[1] ?? null,
  write: ({ change }) => `c.${change}`,
}

const revisionCursor: Cursor<PhaseArtifact, number> = {
  read: readPageNumber,
  write: ({ revision }) => String(revision),
}
