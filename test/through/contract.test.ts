import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { contractTools, toolFileName, toolsForMode } from '../../src/contract/tools.ts'
import { allModes, type Mode } from '../../src/contract/mode.ts'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()

/** A session of this mode, ready, with a configuration where the mode needs one. */
async function begin(mode: Mode, more: object = {}) {
  if (mode === 'scratch') return { session: await host().begin(more), configurationId: '' }
  const configurationId = await host().configuration()
  const bodies = { setup: { sessionType: 'setup' }, automation: { clientType: 'automation' } }
  const body = mode === 'coding' ? {} : bodies[mode]
  const session = await host().begin({ configurationId, ...body, ...more })
  return { session, configurationId }
}
const answerOf = (text: string) => JSON.parse(text) as { success: boolean; result: string }

/** Words of each prompt. The automation's has all of the coding one. */
const marks: Record<string, Mode[]> = {
  'no project configuration': ['scratch'],
  'You set up the development environment': ['setup'],
  'You are a software engineer working on': ['coding', 'automation'],
  completion_id: ['automation'],
}

describe.each(allModes)('in mode %s a session', (mode) => {
  test('[MODE1] [MODE3] its sandbox gets the prompt of its mode', async () => {
    const { session } = await begin(mode)
    expect((await session.view()).mode).toBe(mode)
    const prompt = session.file('.opencode/instructions.md')
    for (const [words, modes] of Object.entries(marks))
      expect([words, prompt.includes(words)]).toEqual([words, modes.includes(mode)])
  })

  test('[TOOL1] [TOOL2] [TOOL12] [TOOL13] its sandbox gets the tools of its mode as pairs, and a guide that names them', async () => {
    const { session } = await begin(mode)
    const { files, layout, toolIds } = session.manifest
    const tools = toolsForMode(mode)
    expect(toolIds).toEqual(tools.map(toolFileName))
    const guide = session.file('.proliferate/actions-guide.md')
    for (const tool of contractTools) {
      const isIn = tools.some(({ name }) => name === tool.name)
      expect([tool.name, guide.includes(`## ${tool.name}\n\n${tool.description}`)]).toEqual([
        tool.name,
        isIn,
      ])
      const path = `${layout.workspace}/.opencode/tool/${toolFileName(tool)}`
      const text = files.find((file) => file.path === `${path}.txt`)?.content
      expect(text).toBe(isIn ? `${tool.description}\n\n${tool.guidance}\n` : undefined)
      const isAbsent = session.manifest.absent.some((file) => file.path === `${path}.ts`)
      expect([tool.name, isAbsent]).toEqual([tool.name, !isIn])
      const wrapper = files.find((file) => file.path === `${path}.ts`)?.content
      expect(wrapper?.includes('export default') ?? false).toBe(isIn)
    }
  })

  test('[TOOL14] a setup tool changes the configuration in a setup session only', async () => {
    const { session, configurationId } = await begin(mode)
    const commands = [{ name: 'web', command: 'npm start', workspacePath: '.' }]
    const answer = answerOf((await session.callback('save_service_commands', { commands })).text)
    expect(answer.success).toBe(mode === 'setup')
    if (mode === 'scratch') return
    const stored = await host().ok('GET', `/v1/configurations/${configurationId}`)
    expect(stored.serviceCommands).toEqual(mode === 'setup' ? commands : [])
  })

  test('[TOOL4] [TOOL5] automation.complete ends the run of an automation only, by either name once', async () => {
    const { session } = await begin(mode)
    const { automationRun } = await session.view()
    const args = { run_id: automationRun?.id ?? 'run', completion_id: 'c1', outcome: 'succeeded' }
    const { text } = await session.callback('automation_complete', args, 'c1')
    const answer = answerOf(text)
    // One tool and one key.
    expect((await session.callback('automation.complete', args, 'c1')).text).toBe(text)
    expect(answer.success).toBe(mode === 'automation')
    const rows = await host().rows(
      'select state, completion_id from automation_runs where session_id = ?',
      session.id,
    )
    if (mode !== 'automation') return expect(rows).toEqual([])
    expect(rows).toEqual([{ state: 'succeeded', completion_id: 'c1' }])
    await host().live(61_000)
    expect((await session.view()).status).toBe('closed')
  })
})

test('[MODE2] a setup session or an automation without a configuration is refused', async () => {
  for (const body of [{ sessionType: 'setup' }, { clientType: 'automation' }])
    expect(await host().refusal('POST', '/v1/sessions', body)).toEqual([422, 'unprocessable'])
})

test('[MODE4] a system_prompt stands in the sandbox in place of the prompt, or behind it', async () => {
  const own = 'Answer in one word.'
  const replaced = await host().begin({ system_prompt: own })
  expect(replaced.file('instructions.md').startsWith(`${own}\n\n# Working`)).toBe(true)
  const added = await host().begin({ system_prompt: own, system_prompt_mode: 'append' })
  expect(added.file('instructions.md')).toContain('no project configuration')
  expect(added.file('instructions.md')).toContain(`${own}\n\n# Working`)
})

test('[MODE3] the prompt names the repository, and an automation its run', async () => {
  const repository = { url: 'https://git.test/team/shop.git' }
  const configurationId = await host().configuration({ repository })
  const automation = { configurationId, clientType: 'automation', automationRunId: 'nightly-7' }
  const session = await host().begin(automation)
  for (const word of ['shop', 'nightly-7']) expect(session.file('instructions.md')).toContain(word)
  expect(session.file('instructions.md')).not.toContain('shop.git')
})

test('[CONF4] [CONF5] [POLS1] a session has repository, model, trust and policy of its configuration', async () => {
  const project = 'configured'
  const rules = [{ match: { category: 'shell' }, decision: 'deny' }]
  await host().ok('PUT', '/v1/policies', {
    ...{ project, format: 'json' },
    source: JSON.stringify({ name: 'p', rules }),
  })
  const configurationId = await host().configuration({
    ...{ project, defaultModel: 'claude-opus-4.6', trustProjectConfig: true },
    repository: { url: 'https://git.test/shop', token: 'clone-token-2' },
  })
  const session = await host().begin({ configurationId })
  expect(session.spec.repository).toMatchObject({
    url: 'https://git.test/shop',
    token: 'clone-token-2',
  })
  expect(session.manifest).toMatchObject({
    model: 'anthropic/claude-opus-4-6',
    trustProjectConfig: true,
  })
  await session.prompt()
  expect(session.agent.answerTo(await session.ask('bash'))?.decision).toBe('deny')
})

test('[GATE7] only a session that trusts its repository lets OpenCode load what the repository configures', async () => {
  const off = { OPENCODE_DISABLE_PROJECT_CONFIG: '1' }
  const untrusted = await host().begin()
  expect(untrusted.manifest.environment).toMatchObject(off)
  const trusting = await host().begin({ trustProjectConfig: true })
  expect(Object.keys(trusting.manifest.environment)).not.toContain(Object.keys(off)[0])
  // Its AGENTS.md is told by us where OpenCode does not look for it, and only there.
  const told = (session: typeof trusting): string[] =>
    JSON.parse(session.file('opencode.json')).instructions
  expect(told(untrusted).filter((path) => path.endsWith('/AGENTS.md'))).toHaveLength(1)
  expect(told(trusting).filter((path) => path.endsWith('/AGENTS.md'))).toEqual([])
})

test('[MODE5] [MODE6] model and effort reach opencode.json', async () => {
  const effort = { model: 'claude-opus-4-6', reasoningEffort: 'deep' }
  const session = await host().begin(effort)
  const config = JSON.parse(session.file('opencode.json'))
  expect([config.model, session.manifest.model]).toEqual(
    Array.from({ length: 2 }, () => 'anthropic/claude-opus-4-6'),
  )
  const options = (some: typeof config) =>
    JSON.stringify(some.provider.anthropic.models['claude-opus-4-6'].options ?? null)
  expect(options(config)).toContain('budgetTokens')
  expect((await session.view()).reasoningEffort).toBe('deep')
  const plain = await host().begin({ model: effort.model })
  expect(options(JSON.parse(plain.file('opencode.json')))).not.toContain('budgetTokens')
})

test('[CALL2] [CALL13] a call is a row of libSQL that says who called, and a line of the log', async () => {
  const { session } = await begin('setup')
  const commands = [{ name: 'web', command: 'npm start', workspacePath: '.' }]
  const first = await session.callback('save_service_commands', { commands }, 'c-1')
  expect((await session.callback('save_service_commands', { commands }, 'c-1')).text).toBe(
    first.text,
  )
  const rows = await host().rows(
    `select tool_name, tool_call_id, source, status, generation, attempts, input, output
     from session_tool_invocations where session_id = ?`,
    session.id,
  )
  const call = { tool_name: 'save_service_commands', tool_call_id: 'c-1', source: 'sandbox' }
  expect(rows).toMatchObject([{ ...call, status: 'settled', generation: 1, attempts: 1 }])
  expect(JSON.parse(String(rows[0]?.['input']))).toEqual({ commands })
  expect(JSON.parse(String(rows[0]?.['output']))).toEqual(answerOf(first.text))
  const lines = host().app.logs.filter(({ fields }) => fields['toolCallId'] === 'c-1')
  expect(lines).toMatchObject([
    {
      level: 'debug',
      fields: { tool: call.tool_name, sessionId: session.id, durationMs: expect.any(Number) },
    },
  ])
})

describe('[CALL14] verify', () => {
  const bytes = new TextEncoder().encode('seen it work')
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  /** The agent uploads the file, and says that it has this size. */
  async function collect(session: HostSession, size: number) {
    const answer = session.callback('verify', { folder: 'shots' })
    const { id, body } = await session.agent.command('collect')
    const headers = { authorization: `Bearer ${session.token}` }
    const init = { method: 'PUT', headers, body: bytes }
    expect((await host().app.app.request(`/sandbox/${session.id}/artifacts`, init)).status).toBe(
      200,
    )
    const file = { path: 'shots/a.txt', size, sha256, contentType: 'text/plain' }
    session.agent.result(id, { files: [file] })
    return { body, answer: JSON.parse((await answer).text) }
  }

  test('collects what the sandbox has, keeps it as an artifact and enters it into the run', async () => {
    const { session } = await begin('coding')
    const { runId } = await session.prompt()
    const { body, answer } = await collect(session, bytes.length)
    expect(body).toMatchObject({ folder: 'shots', maxFiles: 100 })
    expect(answer).toMatchObject({ success: true, data: { uploadedCount: 1 } })
    const { items } = await host().ok('GET', `${session.at}/artifacts`)
    expect(items).toMatchObject([{ path: 'shots/a.txt', size: bytes.length, sha256 }])
    const got = await host().call('GET', `${session.at}/artifacts/${items[0].id}`)
    expect(got.text).toBe('seen it work')
    const { evidence } = await host().ok('GET', `/v1/runs/${runId}`)
    expect(evidence).toMatchObject({ artifacts: 1, verifications: { passed: 1 } })
  })

  test('[CALL15] a file that is not as large as the sandbox says is no evidence', async () => {
    const { session } = await begin('coding')
    const { answer } = await collect(session, bytes.length + 1)
    expect(answer).toEqual({ success: false, result: '"shots/a.txt" was not uploaded whole' })
    expect((await host().ok('GET', `${session.at}/artifacts`)).items).toEqual([])
  })
})

describe('save_snapshot', () => {
  test('[SNAP9] in a setup session it is what the next session of the configuration starts from', async () => {
    const { session, configurationId } = await begin('setup')
    session.sandbox.files.set('a.txt', 'installed')
    const answer = answerOf((await session.callback('save_snapshot', { message: 'm' })).text)
    expect(answer.success).toBe(true)
    const stored = await host().ok('GET', `/v1/configurations/${configurationId}`)
    expect(stored.baseSnapshotId).toMatch(/^snp_/)
    const next = await host().begin({ configurationId })
    expect(next.spec.snapshotId).toBe(stored.baseSnapshotId)
    expect(next.sandbox.files.get('a.txt')).toBe('installed')
  })

  test('[SNAP9] in another session it is what its own next sandbox starts from', async () => {
    const { session, configurationId } = await begin('coding')
    session.sandbox.files.set('b.txt', 'work')
    await session.callback('save_snapshot')
    const stored = await host().ok('GET', `/v1/configurations/${configurationId}`)
    expect(stored.baseSnapshotId).toBe(null)
    await host().ok('POST', `${session.at}/replace`)
    await host().live(60_000)
    expect(session.spec).toMatchObject({ generation: 2, snapshotId: expect.any(String) })
    expect(session.sandbox.files.get('b.txt')).toBe('work')
  })
})
