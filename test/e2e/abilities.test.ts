import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { Approval } from '../../src/contract/approval.ts'
import type { ExecutionRecord } from '../../src/contract/execution.ts'
import type { OfferedAbilities } from '../../src/contract/offered-ability.ts'
import { api, marked, requestsOf, tool } from './contract-kit.ts'
import { bash, Box, script, until, useRealStack, write } from './support.ts'

const stack = useRealStack('workerd')

async function ok<T>(method: string, path: string, body?: unknown): Promise<T> {
  const { status, text, json } = await api(stack(), method, path, body)
  expect(status, `${method} ${path}: ${text}`).toBeLessThan(300)
  return json as T
}

const everything = `
name: everything
description: Has a step of each kind
inputs:
  words: { required: true }
steps:
  - id: hold
    run: ./scripts/hold.sh
    timeout: 3m
  - id: build
    run: ./scripts/build.sh {{inputs.words}}
    needs: [hold]
  - id: work
    type: agent
    agent: build
    tools: [write]
    prompt: 'Do it. {{inputs.words}}'
    needs: [build]
  - id: check
    type: skill
    skill: checklist
    needs: [work]
  - id: approve
    type: approval
    prompt: 'Keep {{steps.work.output}}?'
    needs: [check]
  - id: nested
    type: workflow
    workflow: child-of-everything
    inputs: { from: '{{steps.work.output}}' }
    needs: [approve]
settings: { enforcement: strict }
`
const files = {
  '.opencode/abilities/everything/ability.yaml': everything,
  '.opencode/abilities/everything/scripts/hold.sh':
    '#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done; echo held\n',
  '.opencode/abilities/everything/scripts/build.sh': '#!/bin/sh\necho "pinned: ${#1}"\n',
  '.opencode/abilities/broken.yaml': 'description: nothing\nsteps: []\n',
}

function repository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-abilities-'))
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(path)), { recursive: true })
    writeFileSync(join(folder, path), content, { mode: 0o755 })
  }
  const git = (...words: string[]) => execFileSync('git', words, { cwd: folder, stdio: 'ignore' })
  git('init', '-q', '-b', 'main')
  git('add', '.')
  git('-c', 'user.name=t', '-c', 'user.email=t@example.com', 'commit', '-qm', 'abilities')
  return folder
}

const toldTo = (mark: string): string =>
  JSON.stringify(requestsOf(stack(), mark).at(-1)?.messages ?? [])

const project = 'abilities'

async function begin(): Promise<Box> {
  const skill = { project, name: 'checklist', description: 'Checks' }
  const { id } = await ok<{ id: string }>('PUT', '/v1/skills', skill)
  const source = { kind: 'inline', content: 'Look twice.' }
  await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
  const child = `{ name: child-of-everything, description: d, inputs: { from: {} }, steps: [{ id: say, run: 'echo child of {{inputs.from}}' }] }`
  await ok('PUT', '/v1/abilities', { project, files: [{ path: 'a.yaml', content: child }] })
  return Box.open(stack(), {
    ...{ project, abilities: true, skills: ['checklist'] },
    repository: { url: repository() },
  })
}

test('[ABX1] [ABX5] [ABX6] [ABX8] [ABX10] [ABX11] an ability of the workspace runs from file to end, and a model that wants something else can do nothing of it', async () => {
  const box = await begin()
  const listed = await until('the ability is offered', 20_000, async () => {
    const { items } = (await box.get('/abilities')).json as OfferedAbilities
    return items.length === 3 && items
  })
  expect(listed.map(({ name, runnable }) => `${name} ${runnable}`).toSorted()).toEqual([
    ...['broken.yaml false', 'child-of-everything true', 'everything true'],
  ])

  const own = script([write('made.txt', 'made'), bash('touch not-in-list'), { text: 'made it' }])
  const words = `for the agent ${own}`
  const started = await box.run(
    marked('ability-one', [
      tool('ability_run', { name: 'everything', inputs: { words } }),
      { text: 'started' },
    ]),
  )
  expect(started).toMatchObject({ state: 'completed', text: 'started' })
  expect(toldTo('ability-one')).toContain('It waits for a person')
  const plan = await box.parked()
  expect(plan.kind).toBe('ability')
  const [{ executionId } = { executionId: '' }] = await box.eventsOf('ability.started')
  const record = () => ok<ExecutionRecord>('GET', `/v1/executions/${executionId}`)
  const at = (step: string) =>
    until(`step ${step}`, 60_000, async () => {
      const { currentStep, status, error } = await record()
      if (status !== 'running') throw new Error(`It is ${status}: ${error}`)
      return currentStep === step
    })
  expect((await box.answer(plan, 'allow')).status).toBe(200)
  await until('the script runs', 30_000, async () =>
    (await record()).steps.some(({ stepId, status }) => stepId === 'hold' && status === 'running'),
  )

  // In the middle of a strict script step.
  const file = '.opencode/abilities/everything/scripts/build.sh'
  const tried = await box.run(
    marked('ability-two', [
      write('first.txt', 'x'),
      bash('echo x > second.txt'),
      tool('ability_cancel', { reason: 'I want to go on by myself' }),
      write('third.txt', 'x'),
      tool('edit', { filePath: file, oldString: 'pinned', newString: 'forged' }),
      tool('task', { description: 's', prompt: 'p', subagent_type: 'general' }),
      tool('read', { filePath: file }),
      { text: 'gave up' },
    ]),
  )
  expect(tried).toMatchObject({ state: 'completed', text: 'gave up' })
  const workspace = box.folder('workspace')
  for (const name of ['first.txt', 'second.txt', 'third.txt'])
    expect([name, existsSync(join(workspace, name))]).toEqual([name, false])
  expect(readFileSync(join(workspace, file), 'utf8')).toContain('pinned')
  const told = toldTo('ability-two')
  const refusals = told.match(/at step .{1,6}hold.{1,6} \(script\), 0\/6 steps done/g) ?? []
  expect(refusals.length).toBeGreaterThan(4)
  expect(told).toContain('is strict: a person was asked to end it')
  expect(told).toContain('Active ability: everything')
  const decided = await box.eventsOf('gate.decided')
  const allowed = decided.filter(({ decision }) => decision === 'allow')
  expect([...new Set(allowed.map((one) => one.tool))].toSorted()).toEqual([
    ...['ability_cancel', 'ability_run', 'read'],
  ])
  const { items } = (await box.get('/approvals')).json as { items: Approval[] }
  const cancel = items.find(({ state }) => state === 'pending') as Approval
  expect(cancel.title).toContain('ability_cancel')
  await box.answer(cancel, 'deny')

  // The file of the workspace becomes another one after all: what was approved runs.
  writeFileSync(join(workspace, file), '#!/bin/sh\necho forged\n')
  writeFileSync(join(workspace, 'go'), '')
  await at('approve')
  expect(readFileSync(join(workspace, 'made.txt'), 'utf8')).toBe('made')
  expect(existsSync(join(workspace, 'not-in-list'))).toBe(false)
  const { items: asked } = (await box.get('/approvals')).json as { items: Approval[] }
  await box.answer(asked.find(({ state }) => state === 'pending') as Approval, 'allow')
  const done = await until('it has ended', 60_000, async () => {
    const now = await record()
    return now.status !== 'running' && now
  })
  expect(done).toMatchObject({ status: 'completed', error: null, progress: '6/6', version: null })
  const outputs = Object.fromEntries(
    done.steps.map(({ stepId, output }) => [stepId, output?.trim()]),
  )
  expect(outputs).toMatchObject({
    ...{ hold: 'held', build: `pinned: ${words.length}`, work: 'made it', approve: 'Approved' },
    nested: 'child of made it',
  })
  expect(await box.eventsOf('gate.bypassed')).toEqual([])
})
