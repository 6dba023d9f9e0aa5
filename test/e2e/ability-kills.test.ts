import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { signalProcess } from '../../local/processes/processes.ts'
import type { ExecutionRecord } from '../../src/contract/execution.ts'
import type { Session } from '../../src/contract/session.ts'
import { createRandom, type Random } from '../chaos/random.ts'
import type { Answer } from '../support/stack.ts'
import { api, makeKey } from './policy-kit.ts'
import { findAgent } from './recovery-kit.ts'
import { argvOf, bash, Box, script, sleep, until, useRealStack } from './support.ts'

// Abilities while the control plane, agents, OpenCode and whole sandboxes are killed, at moments that a seed chooses.

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
async function store(yaml: string, log: string, ids = scripts): Promise<void> {
  writeFileSync(log, '', { flag: 'a' })
  chmodSync(log, 0o666)
  const files = ids.map((id) => ({
    path: `scripts/${id}.sh`,
    content: `sleep 0.3\necho ${id} >> ${log}\nsleep 0.3\necho said ${id}\n`,
  }))
  const body = { project, files: [{ path: 'ability.yaml', content: yaml }, ...files] }
  const { status, text } = await api(stack(), 'PUT', '/abilities', body)
  expect([status < 300, text]).toEqual([true, expect.any(String)])
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
    for (const { executionId, stepId, why, approvalId } of found.waitsFor) {
      if (approvalId !== null) {
        await tryApi(
          'POST',
          `/approvals/${approvalId}/resolve`,
          { resolution: 'approved' },
          approver,
        )
        continue
      }
      asked.set(stepId ?? '', why)
      await tryApi('POST', `/executions/${executionId}/resume`, { stepId, answer: 'skip' })
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
    await store(definition(name), log)
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

const outer = (name: string, log: string) => `
name: ${name}
description: One step of each kind
steps:
  - { id: one, run: sh scripts/one.sh }
  - id: work
    agent: build
    on_failure: ask
    prompt: ${JSON.stringify(script([bash(`sleep 0.3; echo work >> ${log}; sleep 0.3`), { text: 'said work' }]))}
  - { id: ok, type: approval, prompt: Go on? }
  - { id: call, workflow: ${name}/inner }
  - { id: two, run: sh scripts/two.sh, on_failure: retry }
`
const inner = (name: string) => `
name: ${name}/inner
description: Called by the other
steps:
  - { id: three, run: sh scripts/three.sh }
`
const effectsInOrder = ['one', 'work', 'three', 'two']

const kinds = ['OpenCode', 'sandbox', 'agent', 'worker'] as const

/** False: there was nothing to kill at this moment. */
async function kill(kind: (typeof kinds)[number], box: Box): Promise<boolean> {
  if (kind === 'worker') {
    stack().worker.kill('SIGKILL')
    await stack().worker.start()
    return true
  }
  const pids = {
    agent: () => [findAgent(box)],
    OpenCode: () => [box.processes().find((pid) => argvOf(pid)[1] === 'serve')],
    sandbox: () => box.processes(),
  }[kind]()
  const found = pids.filter((pid) => pid !== undefined)
  for (const pid of found) signalProcess(pid, 'SIGKILL')
  return found.length > 0
}

/** One of each kind, and then more of them; none while a sandbox only just boots, which is tried elsewhere. */
async function killEachKind(box: Box, random: Random, isOver: () => boolean): Promise<string[]> {
  const order = kinds.map((kind) => ({ kind, at: random.next() })).toSorted((a, b) => a.at - b.at)
  const killed: string[] = []
  for (const { kind } of order) {
    await until('the sandbox is ready again', 90_000, async () => {
      const view = (await tryApi('GET', `/sessions/${box.id}`))?.json as Session | undefined
      if (view !== undefined) box.generation = view.sandbox.generation
      return isOver() || view?.sandbox.state === 'ready'
    })
    await sleep(random.below(1200))
    if (isOver()) return killed
    if (await kill(kind, box)) killed.push(kind)
  }
  return killed
}

test.each([5, 29, 61, 83])(
  '[ABL26] [ABL36] [ABL40] seed %i: control plane, agent, OpenCode and sandbox die in a story with a step of each kind; no effect comes twice, and no step stands still',
  async (seed) => {
    const random = createRandom(seed)
    const [name, log] = [`story-${seed}`, join(effects, `story-${seed}`)]
    await store(inner(name), log, ['three'])
    await store(outer(name, log), log, ['one', 'two'])
    const box = await Box.open(stack(), { project })
    const started = await api(stack(), 'POST', `/sessions/${box.id}/executions`, { ability: name })
    expect([started.status, started.text]).toEqual([201, expect.any(String)])
    let isOver = false
    const killing = killEachKind(box, random, () => isOver)
    const { record, asked } = await attend(started.json.id).finally(() => (isOver = true))
    const killed = await killing

    const lines = readFileSync(log, 'utf8').trim().split('\n').filter(Boolean)
    const stands = record.steps.map(({ stepId, status, tries }) => `${stepId} ${status} ${tries}`)
    process.stdout.write(`${JSON.stringify({ seed, killed, lines, stands, asked: [...asked] })}\n`)
    expect(new Set(killed).size).toBeGreaterThan(1)
    expect(record).toMatchObject({ status: 'completed', error: null })
    // Each at most once, in their order; where nobody knows, a person was asked.
    expect(lines).toEqual(effectsInOrder.filter((id) => lines.includes(id)))
    const unknown = /It may or may not have run|The turn has been interrupted/
    for (const [stepId, why] of asked)
      expect([stepId, why]).toEqual([stepId, expect.stringMatching(unknown)])
    for (const id of effectsInOrder)
      if (!asked.has(id)) expect([id, lines.includes(id)]).toEqual([id, true])
    for (const { stepId, tries } of record.steps) expect([stepId, tries]).toEqual([stepId, 1])
  },
  600_000,
)
