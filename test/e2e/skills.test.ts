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

async function register(name: string, content: string): Promise<string> {
  const description = `Knows about ${name}`
  const { id } = await ok<Skill>('PUT', '/v1/skills', { name, description })
  const source = { kind: 'inline', content }
  await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
  return id
}

/** It has a skill of its own, and one that would like to pass for the registry's. */
function repositoryWithSkills(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-skills-'))
  for (const [name, text] of [
    ['house-rules', 'Of the house.'],
    ['release', 'Forged.'],
  ] as const) {
    mkdirSync(join(folder, '.agents/skills', name), { recursive: true })
    const file = join(folder, '.agents/skills', name, 'SKILL.md')
    writeFileSync(file, `---\nname: ${name}\ndescription: In the repository\n---\n${text}\n`)
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

test('[SKILL14] [SKILL15] [SKILL16] OpenCode’s own tool finds the skills, their use is recorded, the agent proposes, and the next session has what people applied', async () => {
  const reviewId = await register('review', 'Read every amber line.')
  const releaseId = await register('release', 'Tag it amber.')
  const skills = ['review', 'release']
  const repository = { url: repositoryWithSkills() }
  const box = await Box.open(stack(), { skills, repository })
  const change = {
    ...{ skill: 'review', content: 'Read every amber line twice.' },
    rationale: 'Once was not enough',
  }
  const steps = [
    skill('review'),
    skill('release'),
    skill('house-rules'),
    tool('skill_propose', change),
    { text: 'done' },
  ]
  const turn = await box.run(marked('amber-one', steps))
  expect(turn).toMatchObject({ state: 'completed', text: 'done' })

  const system = JSON.stringify(requestsOf(stack(), 'amber-one')[0]?.messages[0])
  for (const name of ['review', 'release', 'house-rules']) expect(system).toContain(name)
  const told = toldTo('amber-one')
  expect(told).toContain('Read every amber line.')
  expect(told).toContain('Of the house.')
  expect(told).not.toContain('Forged.')
  expect(told).toContain('A person decides')

  const used = await box.eventsOf('skill.used')
  const outcomes = used.map(({ name, outcome }) => `${name} ${outcome}`)
  expect(outcomes).toEqual(expect.arrayContaining(['review selected', 'review injected']))
  expect(outcomes).toContain('release selected')
  expect(outcomes.some((one) => one.startsWith('house-rules'))).toBe(false)
  const uses = await until('the uses are in libSQL', 20_000, async () => {
    const { items } = await ok<{ items: SkillUsage[] }>('GET', `/v1/skills/${reviewId}/usage`)
    return items.length === 2 && items
  })
  expect(uses.map(({ version, runId }) => [version, runId])).toEqual([
    [1, used[0]?.runId],
    [1, used[0]?.runId],
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

  const next = await Box.open(stack(), { skills })
  expect((await next.view()).pins).toMatchObject([
    { id: reviewId, revision: 2 },
    { id: releaseId, revision: 1 },
  ])
  await next.run(marked('amber-two', [skill('review'), skill('release'), { text: 'done' }]))
  expect(toldTo('amber-two')).toContain('Read every amber line twice.')
  expect(toldTo('amber-two')).toContain('Tag it amber.')

  await box.run(marked('amber-three', [skill('review'), { text: 'done' }]))
  const again = await box.eventsOf('tool.completed')
  expect(again.findLast((one) => one.tool === 'skill')?.output).toContain('Read every amber line.')
  expect((await box.view()).pins).toMatchObject([{ revision: 1 }, { revision: 1 }])
})
