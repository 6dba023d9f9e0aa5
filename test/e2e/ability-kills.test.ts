import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { signalProcess } from '../../local/processes/processes.ts'
import type { ExecutionRecord } from '../../src/contract/execution.ts'
import { createRandom, type Random } from '../chaos/random.ts'
import type { Answer } from '../support/stack.ts'
import { api, makeKey } from './policy-kit.ts'
import { findAgent } from './recovery-kit.ts'
import { Box, sleep, until, useRealStack } from './support.ts'

// An ability while the control plane is killed again and again, and its agent once, at moments that a seed chooses.

const stack = useRealStack('workerd', () => ({ env: { GANTRY_ENCLOSURE: 'off' } }))
/** It outlives every sandbox. */
const effects = mkdtempSync(join(tmpdir(), 'gantry-ability-kills-'))
const project = 'ability-kills'
const mostKills = 10
let approver: string

beforeAll(async () => {
  chmodSync(effects, 0o777)
  const rules = [
    { match: { category: ['read', 'edit', 'shell', 'git'] }, decision: 'allow' },
    { match: { category: 'external-directory', path: `${effects}/**` }, decision: 'allow' },
  ]
  const source = JSON.stringify({ name: project, rules })
  expect((await api(stack(), 'PUT', '/policies', { project, format: 'json', source })).status).toBe(
    200,
  )
  approver = await makeKey(stack(), 'grace', 'approve')
})
afterAll(() => rmSync(effects, { recursive: true, force: true }))

const scripts = ['one', 'two', 'three']
const definition = (name: string) => `
name: ${name}
description: Three scripts and a person
steps:
  - { id: one, run: sh scripts/one.sh }
  - { id: two, run: sh scripts/two.sh, on_failure: retry }
  - { id: ok, type: approval, prompt: Go on? }
  - { id: three, run: sh scripts/three.sh }
`

/** Its scripts leave a line each in a file of the seed. */
async function store(name: string, log: string): Promise<void> {
  writeFileSync(log, '')
  chmodSync(log, 0o666)
  const files = scripts.map((id) => ({
    path: `scripts/${id}.sh`,
    content: `sleep 0.3\necho ${id} >> ${log}\nsleep 0.3\necho said ${id}\n`,
  }))
  const body = { project, files: [{ path: 'ability.yaml', content: definition(name) }, ...files] }
  expect((await api(stack(), 'PUT', '/abilities', body)).status).toBeLessThan(300)
}

/** Null: nobody has answered, or nobody could. */
async function tryApi(...[method, path, body, key]: [string, string, object?, string?]) {
  const answer: Answer | null = await api(stack(), method, path, body, key).catch(() => null)
  return answer !== null && answer.status < 500 ? answer : null
}

/** Until the execution has ended, or enough. The agent dies before the control plane does for the third time. */
async function killAround(box: Box, random: Random, isOver: () => boolean): Promise<string[]> {
  const killed: string[] = []
  const agentAt = random.below(3)
  for (let kill = 0; kill < mostKills && !isOver(); kill += 1) {
    await sleep(random.below(900))
    if (kill === agentAt) {
      signalProcess(await until('its agent runs', 60_000, () => findAgent(box)), 'SIGKILL')
      killed.push('agent')
      await sleep(random.below(300))
    }
    stack().worker.kill('SIGKILL')
    await stack().worker.start()
    killed.push('worker')
  }
  return killed
}

/** A person who approves what is asked, and lets go of what nobody knows. Which steps asked, and what they said. */
async function attend(
  id: string,
): Promise<{ record: ExecutionRecord; asked: Map<string, string> }> {
  const asked = new Map<string, string>()
  const record = await until(`execution ${id} has ended`, 120_000, async () => {
    const found = (await tryApi('GET', `/executions/${id}`))?.json as ExecutionRecord | undefined
    if (found === undefined) return false
    if (found.status !== 'running') return found
    for (const { stepId, approvalId } of found.waitsFor) {
      if (approvalId !== null) {
        await tryApi(
          'POST',
          `/approvals/${approvalId}/resolve`,
          { resolution: 'approved' },
          approver,
        )
        continue
      }
      const error = found.steps.find((step) => step.stepId === stepId)?.error ?? ''
      asked.set(stepId ?? '', error)
      await tryApi('POST', `/executions/${id}/resume`, { stepId, answer: 'skip' })
    }
    return false
  })
  return { record, asked }
}

test.each([11, 23, 47])(
  '[ABL26] [ABL36] [ABL40] seed %i: whatever is killed, every script has its effect once or asks a person, in their order, and the execution ends',
  async (seed) => {
    const random = createRandom(seed)
    const [name, log] = [`killed-${seed}`, join(effects, String(seed))]
    await store(name, log)
    const box = await Box.open(stack(), { project })
    const started = await api(stack(), 'POST', `/sessions/${box.id}/executions`, { ability: name })
    expect([started.status, started.text]).toEqual([201, expect.any(String)])
    let isOver = false
    const killing = killAround(box, random, () => isOver)
    const { record, asked } = await attend(started.json.id).finally(() => (isOver = true))
    const killed = await killing

    const lines = readFileSync(log, 'utf8').trim().split('\n').filter(Boolean)
    const stands = record.steps.map(({ stepId, status, tries }) => `${stepId} ${status} ${tries}`)
    const told = { seed, killed: killed.join(' '), lines, stands, asked: [...asked] }
    process.stdout.write(`${JSON.stringify(told)}\n`)
    expect(killed.filter((one) => one === 'agent')).toHaveLength(1)
    expect(killed.length).toBeGreaterThan(3)
    expect(record).toMatchObject({ status: 'completed', error: null })
    expect(lines).toEqual(scripts.filter((id) => lines.includes(id)))
    for (const { stepId, status, tries, output } of record.steps) {
      expect([stepId, tries]).toEqual([stepId, 1])
      if (asked.has(stepId)) expect(asked.get(stepId)).toMatch(/^It may or may not have run/)
      else expect([stepId, status]).toEqual([stepId, 'completed'])
      if (!scripts.includes(stepId) || status !== 'completed') continue
      expect([lines.includes(stepId), output]).toEqual([true, `said ${stepId}\n`])
    }
  },
  400_000,
)
