import { z } from '@hono/zod-openapi'
import { MemoryId } from '../../contract/ids.ts'
import * as schemas from '../../contract/memory.ts'
import {
  Memory,
  MemoryCreate,
  MemoryHits,
  MemoryImport,
  MemoryImported,
  MemoryListQuery,
  MemoryRevision,
  MemorySearchQuery,
  MemoryUpdate,
} from '../../contract/memory.ts'
import { PageQuery } from '../../contract/page.ts'
import { RegistryScope } from '../../contract/registry-scope.ts'
import { importMemories } from '../../core/registry/memories/import.ts'
import {
  loadMemory,
  removeMemory,
  updateMemory,
  listMemories,
  listMemoryRevisions,
} from '../../core/registry/memories/memories.ts'
import { searchMemories } from '../../core/registry/memories/search.ts'
import { mustMayUsePlace, placeOf } from '../../core/registry/place.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import { createMemory } from '../../core/verbs/create-memory.ts'
import { type Cursor, datedPage, pageBy, readPageNumber } from '../kit/paging.ts'
import { created, gone, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'memories'
const limitedKeys = 'obeyed' as const
const params = z.object({ memoryId: MemoryId })

/** A personal memory is its member's: for everybody else it is not there. */
export const memoryRoutes = [
  route({
    id: 'createMemory',
    method: 'post',
    path: '/v1/memories',
    summary: 'Remember something, for a project or for the member who asks',
    tag,
    guard: 'write',
    limitedKeys,
    body: MemoryCreate,
    idempotent: true,
    answers: created(Memory, 'The memory'),
    location: ({ id }) => `/v1/memories/${id}`,
    refuses: ['forbidden', 'key_conflict', 'unprocessable'],
    answer({ deps, caller, body, idempotencyKey }) {
      mustMayUsePlace(caller, body.project)
      return createMemory(deps, caller, body, idempotencyKey)
    },
  }),

  route({
    id: 'listMemories',
    method: 'get',
    path: '/v1/memories',
    summary: 'List memories whole, oldest first: also the way to export them',
    tag,
    guard: 'read',
    limitedKeys,
    query: MemoryListQuery,
    answers: ok(listSchema(Memory), 'One page'),
    refuses: ['invalid_request', 'forbidden'],
    answer({ deps, caller, query }) {
      const place = placeFor(caller, query)
      return datedPage(query, (after, limit) =>
        listMemories(deps.db(), place, query.type ?? null, { limit, after }),
      )
    },
  }),

  route({
    id: 'searchMemories',
    method: 'get',
    path: '/v1/memories/search',
    summary: 'Find memories by words, the best first',
    description: 'First those with all words, then those with some.',
    tag,
    guard: 'read',
    limitedKeys,
    query: MemorySearchQuery,
    answers: ok(MemoryHits, 'What was found'),
    refuses: ['invalid_request', 'forbidden'],
    async answer({ deps, caller, query: { query, project, scope, type = null, limit } }) {
      const scopes = scope === 'all' ? RegistryScope.options : [scope]
      const places = scopes.map((one) => placeFor(caller, { project, scope: one }))
      return { items: await searchMemories(deps.db(), { places, query, type, limit }) }
    },
  }),

  route({
    id: 'importMemories',
    method: 'post',
    path: '/v1/memories/import',
    summary: 'Import memories, all or none; a dry run says what would happen',
    description: 'One of the same type and title is changed if it says something else.',
    tag,
    guard: 'write',
    limitedKeys,
    body: MemoryImport,
    answers: ok(MemoryImported, 'What happened to each, in order'),
    refuses: ['forbidden', 'unprocessable'],
    answer({ deps, caller, body }) {
      const idOf = () => `mem_${deps.crypto.random(20)}`
      const by = { savedBy: caller.keyId, idOf }
      return importMemories(deps.db(), deps.now(), placeFor(caller, body), body, by)
    },
  }),

  route({
    id: 'getMemory',
    method: 'get',
    path: '/v1/memories/{memoryId}',
    summary: 'Read a memory',
    tag,
    guard: 'read',
    limitedKeys,
    params,
    answers: ok(Memory, 'Its newest revision'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params: { memoryId } }) => loadMemory(deps.db(), caller, memoryId),
  }),

  route({
    id: 'updateMemory',
    method: 'patch',
    path: '/v1/memories/{memoryId}',
    summary: 'Change a memory, as its next revision',
    tag,
    guard: 'write',
    limitedKeys,
    params,
    body: MemoryUpdate,
    answers: ok(Memory, 'As this change has made it'),
    refuses: ['not_found', 'wrong_state', 'unprocessable'],
    answer({ deps, caller, params: { memoryId }, body }) {
      const saving = { savedBy: caller.keyId, operationId: `upd_${deps.crypto.random(20)}` }
      return updateMemory(deps.db(), deps.now(), caller, memoryId, body, saving)
    },
  }),

  route({
    id: 'deleteMemory',
    method: 'delete',
    path: '/v1/memories/{memoryId}',
    summary: 'Forget a memory: it is found and read no more',
    tag,
    guard: 'write',
    limitedKeys,
    params,
    answers: gone('It is gone'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params: { memoryId } }) =>
      removeMemory(deps.db(), deps.now(), caller, memoryId),
  }),

  route({
    id: 'listMemoryRevisions',
    method: 'get',
    path: '/v1/memories/{memoryId}/revisions',
    summary: 'List the revisions of a memory, newest first',
    tag,
    guard: 'read',
    limitedKeys,
    params,
    query: PageQuery,
    answers: ok(listSchema(MemoryRevision), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    async answer({ deps, caller, params: { memoryId }, query }) {
      const { id } = await loadMemory(deps.db(), caller, memoryId)
      return await pageBy(query, revisionCursor, (before, limit) =>
        listMemoryRevisions(deps.db(), id, { limit, before }),
      )
    },
  }),
]

function placeFor(caller: Caller, place: { project: string; scope: RegistryScope }) {
  mustMayUsePlace(caller, place.project)
  return placeOf(caller, place)
}

const revisionCursor: Cursor<MemoryRevision, number> = {
  read: readPageNumber,
  write: ({ revision }) => String(revision),
}
