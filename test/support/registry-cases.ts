import type { Db } from '../../src/core/ports.ts'
import type { createTestApp } from './app.ts'

type Answer = Awaited<ReturnType<ReturnType<typeof createTestApp>['call']>>
export interface World {
  ok: (method: string, path: string, body?: unknown, as?: string) => Promise<Answer['json']>
  keys: Record<'anna' | 'bert', string>
}
export interface Asked {
  path: string
  body?: unknown
  as?: 'anna' | 'bert'
}
export interface Case {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** What is there before; gives the request. */
  given: (world: World) => Asked | Promise<Asked>
}

const inline = (content: string) => ({ kind: 'inline', content })
async function skillIn({ ok }: World, versions = 1): Promise<string> {
  const { id } = await ok('PUT', '/v1/skills', { name: 'review', description: 'Reviews' })
  for (let n = 1; n <= versions; n += 1)
    await ok('POST', `/v1/skills/${id}/versions`, { source: inline(`V${n}`), activate: true })
  return id
}
async function proposalIn(world: World, submit = true) {
  const id = await skillIn(world)
  const body = { source: inline('Better'), rationale: 'r', submit }
  return await world.ok('POST', `/v1/skills/${id}/proposals`, body)
}
const approve = { resolution: 'approved', reason: 'r' }
const memory = { title: 'Ports', content: 'The proxy listens on 8080' }
const agentIn = async ({ ok }: World) => {
  const { id } = await ok('PUT', '/v1/agents', { name: 'lead' })
  await ok('PUT', '/v1/agents', { name: 'helper', mode: 'subagent', parent: 'lead' })
  return id
}
const phase = '/v1/changes/login/phases/explore'

/** Every route of the registries that changes something, by its operation id. */
export const cases: Record<string, Case> = {
  putAgent: {
    method: 'PUT',
    given: async (world) => {
      await agentIn(world)
      return { path: '/v1/agents', body: { name: 'lead', description: 'changed' } }
    },
  },
  archiveAgent: {
    method: 'POST',
    given: async (world) => ({ path: `/v1/agents/${await agentIn(world)}/archive` }),
  },
  storeShippedAgents: {
    method: 'POST',
    given: () => ({ path: '/v1/agents/shipped', body: { project: 'shop' } }),
  },
  putProfile: {
    method: 'PUT',
    given: () => ({ path: '/v1/profiles', body: { name: 'lead', orchestrator: 'scripted' } }),
  },
  archiveProfile: {
    method: 'POST',
    given: async ({ ok }) => ({
      path: `/v1/profiles/${(await ok('PUT', '/v1/profiles', { name: 'lead' })).id}/archive`,
    }),
  },
  putSkill: {
    method: 'PUT',
    given: () => ({ path: '/v1/skills', body: { name: 'a', description: 'b' } }),
  },
  addSkillVersion: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/versions`,
      body: { source: inline('Next'), activate: true, reason: 'r' },
    }),
  },
  changeSkillVersion: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/versions/1/state`,
      body: { state: 'deprecated', reason: 'r' },
    }),
  },
  rollBackSkill: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world, 2)}/rollback`,
      body: { version: 1, reason: 'r' },
    }),
  },
  attachSkill: {
    method: 'PUT',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/attachments/agent/lead`,
      body: { version: 1 },
    }),
  },
  detachSkill: {
    method: 'DELETE',
    given: async (world) => {
      const path = `/v1/skills/${await skillIn(world)}/attachments/agent/lead`
      await world.ok('PUT', path)
      return { path }
    },
  },
  proposeSkill: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skills/${await skillIn(world)}/proposals`,
      body: { source: inline('Better'), rationale: 'r', submit: true },
    }),
  },
  submitSkillProposal: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skill-proposals/${(await proposalIn(world, false)).id}/submit`,
    }),
  },
  resolveSkillProposal: {
    method: 'POST',
    given: async (world) => {
      const { id, hash } = await proposalIn(world)
      const path = `/v1/skill-proposals/${id}/resolve`
      return { path, body: { ...approve, hash }, as: 'bert' }
    },
  },
  cancelSkillProposal: {
    method: 'POST',
    given: async (world) => ({
      path: `/v1/skill-proposals/${(await proposalIn(world)).id}/cancel`,
      body: { reason: 'r' },
    }),
  },
  applySkillProposal: {
    method: 'POST',
    given: async (world) => {
      const { id, hash } = await proposalIn(world)
      const at = `/v1/skill-proposals/${id}`
      await world.ok('POST', `${at}/resolve`, { ...approve, hash }, world.keys.bert)
      return { path: `${at}/apply`, body: { reason: 'r' }, as: 'bert' }
    },
  },
  createMemory: { method: 'POST', given: () => ({ path: '/v1/memories', body: memory }) },
  updateMemory: {
    method: 'PATCH',
    given: async ({ ok }) => ({
      path: `/v1/memories/${(await ok('POST', '/v1/memories', memory)).id}`,
      body: { content: 'It listens on 9090' },
    }),
  },
  deleteMemory: {
    method: 'DELETE',
    given: async ({ ok }) => ({
      path: `/v1/memories/${(await ok('POST', '/v1/memories', memory)).id}`,
    }),
  },
  importMemories: {
    method: 'POST',
    given: async ({ ok }) => {
      await ok('POST', '/v1/memories', memory)
      const memories = [
        { ...memory, type: 'note', content: 'changed' },
        { title: 'New', content: 'n' },
      ]
      return { path: '/v1/memories/import', body: { memories } }
    },
  },
  savePhaseArtifact: {
    method: 'PUT',
    given: async ({ ok }) => {
      await ok('PUT', phase, { content: 'one' })
      return { path: phase, body: { content: 'two' } }
    },
  },
  approvePhaseArtifact: {
    method: 'POST',
    given: async ({ ok }) => {
      const { sha256 } = await ok('PUT', phase, { content: 'one' })
      return { path: `${phase}/approvals`, body: { sha256 }, as: 'bert' }
    },
  },
  importPhaseArtifacts: {
    method: 'POST',
    given: async ({ ok }) => {
      await ok('PUT', phase, { content: 'one' })
      const artifacts = [
        { change: 'login', phase: 'explore', content: 'two' },
        { change: 'logout', phase: 'explore', content: 'new' },
      ]
      return { path: '/v1/changes/import', body: { artifacts } }
    },
  },
}

const tables = /^(agents?|profiles?|skills?|memor(y|ies)|phases?)(_(?!index)\w+)?$/

type Rows = [table: string, rows: Record<string, unknown>[]][]

async function allRows(db: Db): Promise<Rows> {
  const names = await db.all<{ name: string }>(
    `select name from sqlite_master where type = 'table' order by name`,
  )
  const found: Rows = []
  for (const { name } of names.filter((table) => tables.test(table.name)))
    found.push([name, await db.all(`select * from ${name}`)])
  return found
}

/** With ids and hashes by the order in which they are first seen. */
function shown(rows: Rows): string {
  const seen = new Map<string, string>()
  const named = (id: string) => seen.get(id) ?? seen.set(id, `#${seen.size}`).get(id) ?? ''
  return JSON.stringify(Object.fromEntries(rows), null, 1).replace(
    /\b[a-z]{3}_[0-9a-z]{16,}|\b[0-9a-f]{64}\b|\bp[0-9a-f]{32}0\b|\b179\d{10}\b/g,
    named,
  )
}

export const rowsOf = async (db: Db): Promise<string> => shown(await allRows(db))

/** The same request in another project. */
export const inProject = (project: string, path: string, body: unknown): unknown =>
  /^\/v1\/((agents|profiles|skills|memories)(\/shipped|\/import)?$|changes\/)/.test(path)
    ? { ...(body as object), project }
    : body

/** Those of one project, whenever they were written: times, and where a memory is in the index, are left out. */
export async function projectRows(db: Db, project: string): Promise<string> {
  const all = await allRows(db)
  const own = new Set<unknown>([project])
  const isOwn = (row: Record<string, unknown>) => Object.values(row).some((one) => own.has(one))
  // What a row of its own names by id is its own: proposals, and then their votes.
  for (let size = 0; size < own.size;) {
    size = own.size
    for (const row of all.flatMap(([, rows]) => rows.filter(isOwn))) own.add(row['id'] ?? own)
  }
  const timeless = (row: Record<string, unknown>) =>
    Object.fromEntries(
      Object.entries(row)
        .filter(([column]) => !/^n$|(^|_)at$/.test(column))
        .map(([column, value]) => [column, String(value).replaceAll(/\b\d{13}\b/g, 'time')]),
    )
  const rows = all.map(([table, some]): Rows[number] => [table, some.filter(isOwn).map(timeless)])
  return shown(rows).replaceAll(project, 'project')
}
