import { beforeAll, describe, expect, test } from 'vitest'
import type { Manifest } from '../../src/contract/manifest.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { MemorySandboxes } from '../support/memory-sandboxes.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string
let configurationId: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db, sandboxes: new MemorySandboxes(() => app.deps.now()) })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  const made = await app.call('POST', '/v1/configurations', key, { name: 'web' })
  configurationId = made.json.id
})

const create = (body: object = {}) => app.call('POST', '/v1/sessions', key, body)
const refusal = async (body: object) => {
  const { status, json } = await create(body)
  return [status, json.error.message]
}

/** What the session's sandbox is told to write. */
async function filesOf(body: object): Promise<Record<string, string>> {
  const made = await create(body)
  expect(made.status).toBe(201)
  const sessionId = made.json.id as string
  const { token } = await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })
  const { json } = await app.call('GET', `/sandbox/${sessionId}/manifest`, token)
  return Object.fromEntries((json as Manifest).files.map(({ path, content }) => [path, content]))
}
/** Without what the sandbox adds of itself. */
const promptOf = async (body: object): Promise<string> => {
  const files = Object.entries(await filesOf(body))
  const text = files.find(([path]) => path.endsWith('instructions.md'))?.[1] ?? ''
  return text.slice(0, text.indexOf('\n\n# Working in this sandbox'))
}
const configOf = async (body: object) => {
  const files = await filesOf(body)
  const text = Object.entries(files).find(([path]) => path.endsWith('opencode.json'))?.[1] ?? ''
  return JSON.parse(text) as Record<string, unknown>
}

describe('the mode', () => {
  test('[MODE1] is the session’s, and its prompt is what the sandbox gets', async () => {
    const coding = { configurationId }
    const modes = {
      scratch: {},
      setup: { ...coding, sessionType: 'setup' },
      coding,
      automation: { ...coding, clientType: 'automation' },
    }
    const prompts = new Set<string>()
    for (const [mode, body] of Object.entries(modes)) {
      expect((await create(body)).json.mode).toBe(mode)
      prompts.add(await promptOf(body))
    }
    expect(prompts.size).toBe(4)
  })

  test('[MODE2] a setup session or an automation without a configuration is refused', async () => {
    for (const body of [{ sessionType: 'setup' }, { clientType: 'automation' }])
      expect(await refusal(body)).toEqual([422, expect.stringContaining('configuration')])
  })

  test('[MODE3] automation has the whole coding prompt and both spellings of its end; setup leaves sources alone', async () => {
    const coding = await promptOf({ configurationId })
    const automation = await promptOf({ configurationId, clientType: 'automation' })
    expect(automation).toContain(coding.trim())
    for (const name of ['automation.complete', 'automation_complete'])
      expect(automation).toContain(name)
    const setup = await promptOf({ configurationId, sessionType: 'setup' })
    for (const word of ['verify', 'save_snapshot']) expect(setup).toContain(word)
    expect(setup).toMatch(/not (edit|change|modify)/i)
    for (const text of [coding, automation, setup, await promptOf({})])
      for (const rule of [
        'Never print, copy, upload or commit the file',
        'Never ask for raw API keys',
      ])
        expect(text).toContain(rule)
  })
})

describe('a system prompt', () => {
  test('[MODE4] replaces the computed one exactly; the session says so and warns', async () => {
    const body = { configurationId, system_prompt: '  Be brief.\n' }
    expect(await promptOf(body)).toBe('  Be brief.\n')
    expect((await create(body)).json.prompt).toMatchObject({
      source: 'override',
      warnings: [{ code: 'system_prompt_override' }],
    })
  })

  test('[MODE4] is added if that is asked; an empty one counts as none', async () => {
    const computed = await promptOf({ configurationId })
    const added = { configurationId, system_prompt: 'Be brief.', system_prompt_mode: 'append' }
    const text = await promptOf(added)
    expect(text.startsWith(computed.trim())).toBe(true)
    expect(text.trimEnd().endsWith('Be brief.')).toBe(true)
    expect((await create(added)).json.prompt).toEqual({ source: 'append', warnings: [] })
    expect(await promptOf({ configurationId, system_prompt: ' ' })).toBe(computed)
  })
})

describe('the model', () => {
  test('[MODE5] any spelling of the table is understood, and an unknown one is refused with the nearest', async () => {
    for (const model of ['claude-opus-4.6', 'claude-opus-4-6', 'anthropic/claude-opus-4-6'])
      expect((await create({ model })).json.model).toBe('claude-opus-4.6')
    expect(await refusal({ model: 'claude-opus-4.7' })).toEqual([
      422,
      expect.stringContaining('"claude-opus-4.6"'),
    ])
  })

  test('[MODE6] a reasoning effort becomes the vendor’s options in opencode.json, or is refused', async () => {
    const effort = { model: 'claude-opus-4.6', reasoningEffort: 'deep' }
    expect(JSON.stringify(await configOf(effort))).toContain('budgetTokens')
    expect(JSON.stringify(await configOf({ model: 'claude-opus-4.6' }))).not.toContain(
      'budgetTokens',
    )
    expect(await refusal({ ...effort, model: 'scripted' })).toEqual([
      422,
      expect.stringContaining('does not support'),
    ])
  })
})
