import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { SkillProposal } from '../../src/contract/skill-proposal.ts'
import type { Skill } from '../../src/contract/skill.ts'
import type { SkillUsage } from '../../src/contract/skill-usage.ts'
import { request } from '../support/stack.ts'
import { api, marked, requestsOf, tool } from './contract-kit.ts'
import { Box, until, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

async function ok<T>(method: string, path: string, body?: unknown): Promise<T> {
  const { status, text, json } = await api(stack(), method, path, body)
  expect(status, `${method} ${path}: ${text}`).toBeLessThan(300)
  return json as T
}

const project = 'craft'

async function register(name: string, source: object): Promise<string> {
  const description = `Knows about ${name}`
  const { id } = await ok<Skill>('PUT', '/v1/skills', { project, name, description })
  await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
  return id
}
const inline = (content: string) => ({ kind: 'inline', content })

/** It has a skill of its own, one that would like to pass for the registry's, and the text of one that is registered. */
function repositoryWithSkills(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-skills-'))
  for (const [path, name, text] of [
    ['.agents/skills/house-rules/SKILL.md', 'house-rules', 'Of the house.'],
    ['.agents/skills/release/SKILL.md', 'release', 'Forged.'],
    ['docs/style.md', 'other', 'Short amber words.'],
  ] as const) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    const front = `---\nname: ${name}\ndescription: In the repository\n---\n`
    writeFileSync(join(folder, path), `${front}${text}\n`)
  }
  const git = (...words: string[]) => execFileSync('git', words, { cwd: folder, stdio: 'ignore' })
  git('init', '-q', '-b', 'main')
  git('add', '.')
  git('-c', 'user.name=t', '-c', 'user.email=t@example.com', 'commit', '-qm', 'skills')
  return folder
}

const skill = (name: string) => tool('skill', { name })
const toldTo = (mark: string): string =>
  JSON.stringify(requestsOf(stack(), mark).at(-1)?.messages ?? [])

/** Another member than the one that the tests work as. */
async function approver(): Promise<string> {
  await ok('PUT', '/v1/settings', { newKeysCount: true })
  const body = { name: 'approver', owner: 'approver', scopes: ['write', 'approve'] }
  return (await ok<{ secret: string }>('POST', '/v1/keys', body)).secret
}

test('[AGT12] [MEM9] [SKILL14] [SKILL15] [SKILL16] [SKILL18] a registered agent works with its skills and a memory, proposes, and the next session has what people applied', async () => {
  const reviewId = await register('review', inline('Read every amber line.'))
  const releaseId = await register('release', inline('Tag it amber.'))
  const styleId = await register('style', { kind: 'path', path: 'docs/style.md' })
  const words = 'You are the keeper of the amber house.'
  const agent = { skills: ['review', 'release'], memory: { scopes: ['project'] } }
  const instructions = { kind: 'inline', value: words }
  await ok('PUT', '/v1/agents', { project, name: 'keeper', instructions, ...agent })
  await ok('PUT', `/v1/skills/${styleId}/attachments/agent/keeper`)
  const memory = { title: 'Freezes', content: 'No amber release on Fridays' }
  const { id: memoryId } = await ok<{ id: string }>('POST', '/v1/memories', { project, ...memory })

  const begin = { project, agent: { name: 'keeper' } }
  const box = await Box.open(stack(), { ...begin, repository: { url: repositoryWithSkills() } })
  const change = {
    ...{ skill: 'review', content: 'Read every amber line twice.' },
    rationale: 'Once was not enough',
  }
  const steps = [
    skill('review'),
    skill('release'),
    skill('house-rules'),
    skill('style'),
    tool('memory_search', { query: 'release friday' }),
    tool('skill_propose', change),
    { text: 'done' },
  ]
  const turn = await box.run(marked('amber-one', steps))
  expect(turn).toMatchObject({ state: 'completed', text: 'done' })

  const system = JSON.stringify(requestsOf(stack(), 'amber-one')[0]?.messages[0])
  for (const name of ['review', 'release', 'house-rules', 'style']) expect(system).toContain(name)
  expect(system).toContain(words)
  expect(system).toContain('No amber release on Fridays')
  const told = toldTo('amber-one')
  expect(told).toContain('Read every amber line.')
  expect(told).toContain('Of the house.')
  expect(told).toContain('Short amber words.')
  expect(told).not.toContain('Forged.')
  expect(told).toContain(memoryId)
  expect(told).toContain('A person decides')

  const used = await box.eventsOf('skill.used')
  const outcomes = used.map(({ name, outcome }) => `${name} ${outcome}`)
  expect(outcomes).toEqual(expect.arrayContaining(['review selected', 'review injected']))
  expect(outcomes).toEqual(expect.arrayContaining(['release selected', 'style injected']))
  expect(outcomes.some((one) => one.startsWith('house-rules'))).toBe(false)
  const [runId] = used.map((use) => use.runId)
  const { items: timeline } = await ok<{ items: { kind: string; data: { ids?: string[] } }[] }>(
    ...(['GET', `/v1/runs/${runId}/events?limit=200`] as const),
  )
  const kinds = timeline.map(({ kind }) => kind)
  expect(kinds).toEqual(expect.arrayContaining(['agent.invoked', 'skill.injected', 'memory.read']))
  await ok('POST', `/v1/runs/${runId}/skills`, { skillId: reviewId, outcome: 'helped' })
  const uses = await until('the uses are in libSQL', 20_000, async () => {
    const { items } = await ok<{ items: SkillUsage[] }>('GET', `/v1/skills/${reviewId}/usage`)
    return items.length === 3 && items
  })
  expect(uses.map((use) => `${use.outcome} ${use.version} ${use.runId}`).toSorted()).toEqual([
    ...['helped', 'injected', 'selected'].map((outcome) => `${outcome} 1 ${runId}`),
  ])

  const [proposal] = (
    await ok<{ items: SkillProposal[] }>('GET', '/v1/skill-proposals?state=submitted')
  ).items
  const key = await approver()
  const act = async (name: string, body: object) => {
    const url = `${stack().url}/v1/skill-proposals/${proposal?.id}/${name}`
    const { status, text } = await request('POST', url, key, body)
    expect([name, status, text]).toEqual([name, 200, text])
  }
  const reason = 'It reads better'
  await act('resolve', { resolution: 'approved', hash: proposal?.hash, reason })
  await act('apply', { reason })

  const next = await Box.open(stack(), begin)
  expect((await next.view()).pins).toMatchObject([
    { kind: 'agent', name: 'keeper' },
    { id: reviewId, revision: 2 },
    { id: releaseId, revision: 1 },
    { id: styleId, revision: 1 },
    { kind: 'memory', id: memoryId, revision: 1 },
  ])
  await next.run(marked('amber-two', [skill('review'), skill('release'), { text: 'done' }]))
  expect(toldTo('amber-two')).toContain('Read every amber line twice.')
  expect(toldTo('amber-two')).toContain('Tag it amber.')

  await box.run(marked('amber-three', [skill('review'), { text: 'done' }]))
  const again = await box.eventsOf('tool.completed')
  expect(again.findLast((one) => one.tool === 'skill')?.output).toContain('Read every amber line.')
  expect((await box.view()).pins.every(({ revision }) => revision === 1)).toBe(true)
})
