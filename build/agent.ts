import { build, type Plugin } from 'esbuild'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** Bundles the sandbox agent into one file that needs nothing but Node. */
export async function buildAgent(outfile: string): Promise<void> {
  await build({
    entryPoints: [fileURLToPath(new URL('../sandbox-agent/main.ts', import.meta.url))],
    outfile,
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
    plugins: [shakeZod, dropJsonSchema],
  })
}

/**
 * esbuild keeps the whole of `z` (with forty languages: 400 KB more) when it is imported by name, and only what is used
 * when it is imported as a namespace. The contract stays written the usual way.
 */
const shakeZod: Plugin = {
  name: 'shake-zod',
  setup(setup) {
    setup.onLoad({ filter: /[\\/]src[\\/]contract[\\/].+\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8')
      return {
        loader: 'ts',
        contents: source.replace("import { z } from 'zod'", "import * as z from 'zod'"),
      }
    })
  },
}

/** zod carries its JSON Schema generator in every schema. The agent only parses. */
const dropJsonSchema: Plugin = {
  name: 'drop-json-schema',
  setup(setup) {
    setup.onLoad(
      { filter: /[\\/]zod[\\/]v4[\\/]core[\\/](json-schema-processors|to-json-schema)\.js$/ },
      async ({ path }) => {
        const source = await readFile(path, 'utf8')
        const names = [...source.matchAll(/^export (?:const|function|class) (\w+)/gm)].map(
          (match) => match[1],
        )
        return {
          contents: names.map((name) => `export const ${name} = () => () => undefined`).join('\n'),
        }
      },
    )
  },
}
