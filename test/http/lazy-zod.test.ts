import { build } from 'esbuild'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { lazyZod } from '../../build/worker.ts'
import { root } from '../../local/binaries.ts'
import * as tools from '../../src/contract/tools.ts'
import * as app from '../../src/http/app.ts'
import { createTestApp } from '../support/app.ts'
import { random } from '../support/random.ts'
import { samplesOf } from '../support/samples.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-lazy-zod-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Module = Record<string, unknown>

const files = readdirSync(join(root, 'src/contract')).filter((file) => file.endsWith('.ts'))

async function importLazy(): Promise<Record<string, Module> & { app: typeof app }> {
  const outfile = join(folder, 'contract.mjs')
  const contents = files.map((file) => `export * as '${file}' from './src/contract/${file}'`)
  await build({
    stdin: {
      contents: [...contents, `export * as app from './src/http/app.ts'`].join('\n'),
      resolveDir: root,
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    plugins: [lazyZod],
    // Some of what it bundles asks for modules of Node in the old way.
    banner: {
      js: `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)`,
    },
  })
  return (await import(outfile)) as Awaited<ReturnType<typeof importLazy>>
}

/** Schemas by name, also those in tables such as the kinds of events. */
function schemasIn(value: unknown, name: string): [string, z.ZodType][] {
  if (typeof value !== 'object' || value === null) return []
  if ('_zod' in value) return [[name, value as z.ZodType]]
  return Object.entries(value).flatMap(([key, inner]) => schemasIn(inner, `${name}.${key}`))
}

/** Spread over all that it could be given. */
function fewSamplesOf(schema: z.ZodType): unknown[] {
  const samples = samplesOf(schema, random(7))
  const step = Math.ceil(samples.length / 20)
  return samples.filter((_, at) => at % step === 0)
}

const outcome = (schema: z.ZodType, value: unknown) => {
  const { success, data, error } = schema.safeParse(value)
  return { success, data, issues: error?.issues }
}

const { deps } = createTestApp({
  db: () => {
    throw new Error('Not needed here')
  },
})

const documentOf = async ({ createApp }: typeof app) => {
  const answer = await createApp(deps).request('/openapi.json')
  return (await answer.json()) as { components: { schemas: object } }
}

const lazy = await importLazy()

describe('in the bundle of the Worker', () => {
  test('[API4] the document is that of the source', async () => {
    const document = await documentOf(lazy.app)
    expect(Object.keys(document.components.schemas).length).toBeGreaterThan(200)
    expect(document).toEqual(await documentOf(app))
  })

  test('[API3] a model is shown the arguments of every tool as in the source', async () => {
    const other = lazy['tools.ts'] as unknown as typeof tools
    const shown = ({ contractTools, toolJsonSchema }: typeof tools) =>
      contractTools.map((tool) => [tool.name, toolJsonSchema(tool)])
    expect(shown(other)).toEqual(shown(tools))
  })

  for (const file of files)
    test(`[API3] schemas of ${file} take, refuse and say what they do in the source`, async () => {
      const others = new Map(schemasIn(lazy[file], file))
      const whole = schemasIn(await import(join(root, 'src/contract', file)), file)
      expect([...others.keys()].toSorted()).toEqual(whole.map(([name]) => name).toSorted())
      const differing = whole.flatMap(([name, schema]) => {
        const other = others.get(name) as z.ZodType
        return fewSamplesOf(schema)
          .filter((value) => !isDeepStrictEqual(outcome(other, value), outcome(schema, value)))
          .map((value) => ({ name, value }))
      })
      expect(differing).toEqual([])
    })
})
