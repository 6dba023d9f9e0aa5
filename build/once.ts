import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * Where a run of the tests keeps what it has built: sources do not change while it lasts, and some thirty stacks of it
 * start from the same bundles.
 */
export const runCache = (): string | undefined => process.env['GANTRY_RUN_CACHE']

/** Builds the file, or takes the one that this run has built under the same name. */
export async function buildOnce(
  name: string,
  outfile: string,
  build: (outfile: string) => Promise<void>,
): Promise<void> {
  const folder = runCache()
  if (folder === undefined) return build(outfile)
  const kept = join(folder, createHash('sha256').update(name).digest('hex').slice(0, 16))
  if (!existsSync(kept)) {
    mkdirSync(folder, { recursive: true })
    // Under another name first: others may look meanwhile, or build it, too.
    const draft = `${kept}.${process.pid}`
    await build(draft)
    renameSync(draft, kept)
  }
  mkdirSync(dirname(outfile), { recursive: true })
  copyFileSync(kept, outfile)
}
