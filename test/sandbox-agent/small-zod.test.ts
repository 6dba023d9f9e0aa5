import { build } from 'esbuild'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { buildAgent, smallZod } from '../../build/agent.ts'
import { binary, root } from '../../local/binaries.ts'
import { random } from '../support/random.ts'
import { samplesOf } from '../support/samples.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-small-zod-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Module = Record<string, unknown>

async function bundleAgent() {
  const { metafile } = await build({
    entryPoints: [join(root, 'sandbox-agent/main.ts')],
    absWorkingDir: root,
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    plugins: [smallZod],
  })
  return metafile
}

async function importSmall(files: string[]): Promise<Record<string, Module>> {
  const outfile = join(folder, 'contract.mjs')
  await build({
    stdin: {
      contents: files
        .map((file) => `export * as ${JSON.stringify(file)} from './${file}'`)
        .join('\n'),
      resolveDir: root,
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    plugins: [smallZod],
  })
  return (await import(outfile)) as Record<string, Module>
}

/** Schemas by name, also those in tables such as the kinds of commands. */
function schemasIn(value: unknown, name: string): [string, z.ZodType][] {
  if (typeof value !== 'object' || value === null) return []
  if ('_zod' in value) return [[name, value as z.ZodType]]
  return Object.entries(value).flatMap(([key, inner]) => schemasIn(inner, `${name}.${key}`))
}

const outcome = (schema: z.ZodType, value: unknown) => {
  const { success, data, error } = schema.safeParse(value)
  return { success, data, issues: error?.issues }
}

const bundle = await bundleAgent()
const files = Object.keys(bundle.inputs).filter((file) => file.startsWith('src/contract/'))
const small = await importSmall(files)
const pairs = await Promise.all(
  files.map(async (file) => {
    const whole = schemasIn(await import(join(root, file)), file)
    const others = new Map(schemasIn(small[file], file))
    return whole.map(([name, schema]) => ({ name, schema, other: others.get(name) as z.ZodType }))
  }),
)

describe('in the bundle of the agent', () => {
  test('[BOX12] are the schemas that it parses with', () => {
    const names = pairs.flat().map(({ name }) => name.split('/').at(-1))
    expect(names).toContain('link.ts.DownMessage')
    expect(names).toContain('link.ts.commandKinds.execute.body')
    expect(names).toContain('manifest.ts.Manifest')
    expect(names).toContain('tool.ts.ToolCallback')
  })

  for (const { name, schema, other } of pairs.flat()) {
    test(`[BOX12] ${name} takes, refuses and says what the contract does`, () => {
      const samples = samplesOf(schema, random(7))
      const differing = samples.filter(
        (value) => !isDeepStrictEqual(outcome(other, value), outcome(schema, value)),
      )
      expect(differing).toEqual([])
    })
  }
})

describe('the bundle of the agent', async () => {
  const path = join(folder, 'agent', 'agent.mjs')
  await buildAgent(path)

  test('[BOX12] is one file of less than 260 000 bytes that imports only Node', () => {
    expect(readdirSync(join(folder, 'agent'))).toEqual(['agent.mjs'])
    expect(statSync(path).size).toBeLessThan(260_000)
    const imports = Object.values(bundle.outputs).flatMap((output) => output.imports)
    expect(imports.length).toBeGreaterThan(5)
    for (const { path: name } of imports) expect(name).toMatch(/^node:/)
  })

  test('[BOX12] says in words what is wrong with its boot document', () => {
    const { status, stderr } = spawnSync(binary('node'), [path], { input: '{}', encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).toContain('Invalid input: expected string, received undefined')
  })
})
