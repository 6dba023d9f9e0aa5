import { createHash } from 'node:crypto'
import { describe, expect, it, test } from 'vitest'
import { createLocalSandboxes } from '../../../../src/adapters/sandboxes/local.ts'
import { remoteLayout } from '../../../../src/adapters/sandboxes/remote-layout.ts'
import type { Layout, Manifest } from '../../../../src/contract/manifest.ts'
import { allModes } from '../../../../src/contract/mode.ts'
import { modelRows, parseModel } from '../../../../src/contract/models.ts'
import { computePrompt } from '../../../../src/contract/prompts.ts'
import { contractTools, toolFileName, toolsForMode } from '../../../../src/contract/tools.ts'
import { buildManifest, type ManifestInput } from '../../../../src/core/session/manifest/files.ts'

const crypto = {
  sha256: (text: string) => Promise.resolve(createHash('sha256').update(text).digest('hex')),
  random: () => 'r'.repeat(20),
}
const sessionId = `ses_${'a'.repeat(30)}`
const local = createLocalSandboxes({ hostUrl: 'http://x', secret: 's', root: '/state/sandboxes' })

/** As the contract says it, on E2B and Modal; and the local one. What differs is declared by being here. */
const literal = remoteLayout
const layouts = { literal, local: local.layout(sessionId, 1) }

function build(layout: Layout, change: Partial<ManifestInput> = {}): Promise<Manifest> {
  const mode = change.mode ?? 'coding'
  return buildManifest(
    {
      sessionId,
      layout,
      prompt: computePrompt({
        mode,
        repositoryName: 'shop',
        layout,
        automationRun: mode === 'automation' ? { runId: 'run-1' } : undefined,
        systemPrompt: null,
        systemPromptMode: 'replace',
      }),
      model: parseModel('claude-opus-4.6'),
      models: modelRows(['gpt-9']),
      effort: 'deep',
      mode,
      tools: contractTools,
      trustProjectConfig: false,
      nonce: 'n'.repeat(20),
      ...change,
    },
    crypto,
  )
}

/** Its text with the declared places for what this layout has there. */
function neutral(whole: Manifest): string {
  const { layout, version: _version, ...manifest } = whole
  const { hostname, port, ...paths } = layout
  const named = Object.entries(paths).sort(([, a], [, b]) => b.length - a.length)
  const clean = (text: string) => {
    const placed = named.reduce((rest, [name, path]) => rest.replaceAll(path, `<${name}>`), text)
    const temporary = paths.envFile.slice(0, paths.envFile.lastIndexOf('/'))
    return placed
      .replaceAll(new RegExp(`^${temporary}$`, 'g'), '<tmp>')
      .replace(`"hostname": "${hostname}"`, '"hostname": "<hostname>"')
      .replace(port === 0 ? /(?<="<hostname>")(?=\n)/ : `,\n    "port": ${port}`, ',<port>')
  }
  const files = manifest.files.map(({ sha256: _hash, path, content, ...rest }) => ({
    path: clean(path),
    content: clean(content),
    ...rest,
  }))
  const environment = Object.fromEntries(
    Object.entries(manifest.environment).map(([name, value]) => [name, clean(value)]),
  )
  const absent = manifest.absent.map(({ path, sha256 }) => ({ path: clean(path), sha256 }))
  return JSON.stringify({ ...manifest, files, environment, absent }, null, 1)
}

describe.each(allModes)('[MODE7] a sandbox in mode %s', (mode) => {
  it('is told the same everywhere, byte for byte, but for the declared paths, port and host name', async () => {
    const [one, two] = [
      await build(layouts.literal, { mode }),
      await build(layouts.local, { mode }),
    ]
    expect(neutral(one)).toBe(neutral(two))
    expect(one.version).not.toBe(two.version)
    for (const path of Object.values(layouts.literal).filter((value) => typeof value === 'string'))
      expect(neutral(one)).not.toContain(path)
    expect(neutral(two)).not.toContain('/state/sandboxes')
  })

  it('gets exactly the tools of its mode, as pairs, in both folders; what others have is to be absent', async () => {
    const { files, absent, toolIds, layout } = await build(literal, { mode })
    const names = toolsForMode(mode).map(toolFileName)
    expect(toolIds).toEqual(names)
    const pairs = (some: string[]) => some.flatMap((name) => [`${name}.ts`, `${name}.txt`]).sort()
    for (const folder of [`${layout.configDir}/tool/`, `${layout.workspace}/.opencode/tool/`]) {
      const inside = files
        .filter(({ path }) => path.startsWith(folder))
        .map(({ path }) => path.slice(folder.length))
      expect(inside.filter((path) => /\.(ts|txt)$/.test(path)).sort()).toEqual(pairs(names))
    }
    const others = contractTools.map(toolFileName).filter((name) => !names.includes(name))
    expect(absent.map(({ path }) => path.slice(path.lastIndexOf('/') + 1)).sort()).toEqual(
      pairs(others),
    )
  })

  it('finds its workspace and its env file in the prompt as its layout has them', async () => {
    const { files, layout } = await build(layouts.local, { mode })
    const text = files.find(({ path }) => path === `${layout.configDir}/instructions.md`)?.content
    expect(text).toContain(layout.workspace)
    expect(text).toContain(layout.envFile)
    expect(text).not.toContain('/home/user')
  })
})

test('[MODE7] the places of the contract are in the manifest literally', async () => {
  const manifest = await build(literal)
  const paths = manifest.files.map(({ path }) => path)
  expect(paths).toEqual(
    expect.arrayContaining([
      '/home/user/.config/opencode/opencode.json',
      '/home/user/.config/opencode/plugin/proliferate.mjs',
      '/workspace/opencode.json',
      '/workspace/.opencode/instructions.md',
      '/workspace/.opencode/tool/verify.ts',
      '/workspace/.proliferate/actions-guide.md',
    ]),
  )
  expect(manifest.environment['PROLIFERATE_ENV_FILE']).toBe('/tmp/.proliferate_env.json')
  expect(manifest.environment['TMPDIR']).toBe('/tmp')
})

describe('[MODE7] opencode.json', () => {
  const textsIn = ({ files }: Manifest) =>
    files.filter(({ path }) => path.endsWith('/opencode.json')).map(({ content }) => content)

  it('is one text at the global, the repository and the loaded path', async () => {
    for (const layout of Object.values(layouts)) {
      const texts = textsIn(await build(layout))
      expect(texts).toHaveLength(3)
      expect(new Set(texts).size).toBe(1)
    }
  })

  it('has exactly these keys, with the permissions in their order', async () => {
    const [text = ''] = textsIn(await build(literal))
    const config = JSON.parse(text) as Record<string, Record<string, unknown>>
    expect(Object.keys(config)).toEqual([
      '$schema',
      'model',
      'small_model',
      'autoupdate',
      'share',
      'snapshot',
      'enabled_providers',
      'permission',
      'mcp',
      'server',
      'plugin',
      'instructions',
      'provider',
    ])
    expect(JSON.stringify(config['permission'])).toBe('{"*":"allow","question":"deny"}')
    expect(config).toMatchObject({
      model: 'anthropic/claude-opus-4-6',
      mcp: {},
      server: { hostname: '0.0.0.0', port: 4096 },
      plugin: ['/opt/gantry/config/plugin/proliferate.mjs'],
    })
    expect(config['mcp']).toEqual({})
    expect(Object.keys(config['provider'] ?? {})).toEqual(['anthropic', 'litellm'])
    for (const block of Object.values(config['provider'] ?? {}) as Record<string, object>[]) {
      expect(Object.keys(block)).toEqual(['npm', 'name', 'options', 'models'])
      expect(Object.keys(block['options'] ?? {})).toEqual(['baseURL', 'apiKey'])
      for (const model of Object.values(block['models'] ?? {}))
        expect(model).toMatchObject({
          limit: { context: expect.any(Number), output: expect.any(Number) },
        })
    }
  })

  it('holds no secret: addresses and keys are names of the environment', async () => {
    const [text = ''] = textsIn(await build(literal))
    const options = [...text.matchAll(/"(baseURL|apiKey)": "([^"]*)"/g)].map(([, , value]) => value)
    expect(options).toHaveLength(4)
    for (const value of options)
      expect(value).toMatch(/^\{env:(PROLIFERATE_GATEWAY_URL|SANDBOX_MCP_AUTH_TOKEN)\}/)
  })
})
