import { build, type Plugin } from 'esbuild'
import { fileURLToPath } from 'node:url'
import { buildOnce } from './once.ts'

/** Bundles the sandbox agent into one file that needs nothing but Node. */
export async function buildAgent(outfile: string): Promise<void> {
  await buildOnce('agent', outfile, bundle)
}

async function bundle(outfile: string): Promise<void> {
  await build({
    entryPoints: [fileURLToPath(new URL('../sandbox-agent/main.ts', import.meta.url))],
    outfile,
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
    plugins: [smallZod],
  })
}

/** The contract stays written the usual way; `zod` itself would be half of the bundle. */
export const smallZod: Plugin = {
  name: 'small-zod',
  setup(setup) {
    const path = fileURLToPath(new URL('small-zod.ts', import.meta.url))
    setup.onResolve({ filter: /^zod$/ }, () => ({ path }))
  },
}
