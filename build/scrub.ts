import { build } from 'esbuild'
import { fileURLToPath } from 'node:url'

/** Bundles what prepares a remote sandbox's copy for a snapshot into one file that needs nothing but Node. */
export async function buildScrub(outfile: string): Promise<void> {
  await build({
    entryPoints: [fileURLToPath(new URL('../local/snapshots/scrub-main.ts', import.meta.url))],
    outfile,
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  })
}
