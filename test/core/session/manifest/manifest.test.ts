import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { idAlphabet } from '../../../../src/contract/ids.ts'
import { Manifest } from '../../../../src/contract/manifest.ts'
import { modelRows, parseModel } from '../../../../src/contract/models.ts'
import type { ToolDefinition } from '../../../../src/contract/tool.ts'
import { verifyTool } from '../../../../src/contract/tools/verify.ts'
import { random } from '../../../support/random.ts'
import { buildManifest, type ManifestInput } from '../../../../src/core/session/manifest/files.ts'

const chance = random(1)
const crypto = {
  sha256: (text: string) => Promise.resolve(createHash('sha256').update(text).digest('hex')),
  random: (length: number) =>
    Array.from({ length }, () => idAlphabet[Math.floor(chance() * 32)]).join(''),
}
const layout = {
  home: '/s/home',
  workspace: '/s/workspace',
  configDir: '/s/config',
  envFile: '/s/tmp/.proliferate_env.json',
  hostname: '127.0.0.1',
  port: 0,
}
const dotted: ToolDefinition = {
  ...verifyTool,
  name: 'automation.complete',
  fileName: 'automation_complete',
  args: z.strictObject({ run_id: z.string(), note: z.string().optional() }),
}
const build = (change: Partial<ManifestInput> = {}) =>
  buildManifest(
    {
      sessionId: 'ses_1',
      layout,
      prompt: 'Be good.',
      model: parseModel('scripted'),
      models: modelRows(),
      effort: null,
      mode: 'coding',
      tools: [verifyTool, dotted],
      trustProjectConfig: false,
      ...change,
    },
    crypto,
  )
const contentOf = (manifest: Manifest, path: string) =>
  manifest.files.find((file) => file.path === path)?.content ?? ''
const configOf = (manifest: Manifest) =>
  JSON.parse(contentOf(manifest, '/s/config/opencode.json')) as Record<string, never>

describe('the manifest', () => {
  it('is valid, hashes each file, and is the same again for the same nonce', async () => {
    const manifest = await build({ nonce: 'abc' })
    expect(Manifest.parse(manifest)).toEqual(manifest)
    for (const file of manifest.files) expect(file.sha256).toBe(await crypto.sha256(file.content))
    expect(await build({ nonce: 'abc' })).toEqual(manifest)
    expect((await build({ nonce: 'abd' })).version).not.toBe(manifest.version)
  })

  it('names no path twice and stays inside the folders of the sandbox', async () => {
    const paths = (await build()).files.map((file) => file.path)
    expect(new Set(paths).size).toBe(paths.length)
    expect(paths.every((path) => /^\/s\/(config|home|workspace)\//.test(path))).toBe(true)
  })

  it("writes the contract's paths: both opencode.json, the plugin, the tool pairs, the guides and the tool folder's dependencies", async () => {
    const files = new Map((await build()).files.map((file) => [file.path, file.keep]))
    expect(files.get('/s/home/.config/opencode/opencode.json')).toBe('own')
    expect(files.get('/s/home/.config/opencode/plugin/proliferate.mjs')).toBe('own')
    for (const path of [
      'opencode.json',
      '.opencode/instructions.md',
      '.opencode/tool/verify.ts',
      '.opencode/tool/verify.txt',
      '.opencode/tool/automation_complete.ts',
      '.opencode/tool/package.json',
      '.opencode/tool/node_modules/.package-lock.json',
      '.proliferate/actions-guide.md',
    ]) {
      expect(files.get(`/s/workspace/${path}`), path).toBe('copy')
    }
  })

  it('writes each file once where the config folder is the global one', async () => {
    const files = (await build({ layout: { ...layout, configDir: '/s/home/.config/opencode' } }))
      .files
    expect(files.filter((file) => file.path.endsWith('proliferate.mjs'))).toHaveLength(1)
  })

  it('has a marker that differs from manifest to manifest', async () => {
    const [one, two] = [await build(), await build()]
    expect(one.marker).not.toBe(two.marker)
    expect(contentOf(one, '/s/config/plugin/proliferate.mjs')).toContain(one.marker)
    expect(
      one.files.filter((file) => file.keep === 'copy' && file.content.includes(one.marker)),
    ).toEqual([])
  })

  it('asks OpenCode for the tools under the names of their files', async () => {
    expect((await build()).toolIds).toEqual(['verify', 'automation_complete'])
  })
})

describe('opencode.json', () => {
  it('allows everything but questions, in the order that OpenCode needs, and registers no server and no tool', async () => {
    const config = configOf(await build())
    expect(JSON.stringify(config['permission'])).toBe('{"*":"allow","question":"deny"}')
    expect(config['mcp']).toEqual({})
    expect(config['tools']).toBeUndefined()
    expect(config['plugin']).toEqual(['/s/config/plugin/proliferate.mjs'])
  })

  it('takes addresses and the key from the environment', async () => {
    const { provider } = configOf(await build()) as unknown as {
      provider: Record<string, { options: object }>
    }
    expect(provider['anthropic']?.options).toEqual({
      baseURL: '{env:PROLIFERATE_GATEWAY_URL}/llm/anthropic/v1',
      apiKey: '{env:SANDBOX_MCP_AUTH_TOKEN}',
    })
    expect(provider['litellm']?.options).toEqual({
      baseURL: '{env:PROLIFERATE_GATEWAY_URL}/llm/litellm',
      apiKey: '{env:SANDBOX_MCP_AUTH_TOKEN}',
    })
  })

  it('lists the models of the table and what else the deployment serves, with limits', async () => {
    const models = modelRows(['gpt-9'])
    const { provider } = configOf(
      await build({ models, model: parseModel('gpt-9', models) }),
    ) as unknown as {
      provider: Record<string, { models: Record<string, { limit: object }> }>
    }
    expect(Object.keys(provider['anthropic']?.models ?? {})).toEqual([
      'claude-sonnet-4-6',
      'claude-opus-4-6',
    ])
    expect(Object.keys(provider['litellm']?.models ?? {}).slice(-2)).toEqual(['scripted', 'gpt-9'])
    expect(provider['litellm']?.models['gpt-9']?.limit).toEqual({ context: 128_000, output: 8192 })
  })
})

describe('an untrusted repository', () => {
  it('is not loaded, and its AGENTS.md is passed on', async () => {
    const manifest = await build()
    expect(manifest.environment['OPENCODE_DISABLE_PROJECT_CONFIG']).toBe('1')
    expect(configOf(manifest)['instructions']).toEqual([
      '/s/config/instructions.md',
      '/s/workspace/AGENTS.md',
    ])
  })

  it('is loaded when it is trusted', async () => {
    const manifest = await build({ trustProjectConfig: true })
    expect(manifest.environment['OPENCODE_DISABLE_PROJECT_CONFIG']).toBeUndefined()
    expect(configOf(manifest)['instructions']).toEqual(['/s/config/instructions.md'])
  })

  it('cannot reach the folders from which OpenCode loads code: both are inside the config folder', async () => {
    const { environment } = await build()
    expect(environment['HOME']).toBe('/s/config/home')
    expect(environment['XDG_CONFIG_HOME']).toBe('/s/config/xdg')
    expect(environment['OPENCODE_CONFIG_DIR']).toBe('/s/config')
  })
})
