import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { binary, root } from '../local/binaries.ts'
import { buildWorker } from './worker.ts'

const outdir = mkdtempSync(join(tmpdir(), 'gantry-deploy-'))
try {
  const entry = join(outdir, 'worker.js')
  await buildWorker(join(root, 'src', 'worker.ts'), entry, { minify: true })
  // By its own bundle, as in docs: `npm run build`, then `wrangler deploy dist/worker.js --no-bundle`.
  const args = [
    binary('wrangler'),
    'deploy',
    entry,
    '--no-bundle',
    '--dry-run',
    '-c',
    'wrangler.toml',
  ]
  const run = spawnSync(binary('node'), args, {
    cwd: root,
    encoding: 'utf8',
    env: {
      ...process.env,
      WRANGLER_SEND_METRICS: 'false',
      XDG_CONFIG_HOME: join(outdir, 'config'),
      CI: '1',
    },
  })
  if (run.status !== 0) {
    console.error(`${run.stdout}${run.stderr}\nThe Worker cannot be deployed: see above`)
    process.exitCode = 1
  } else {
    const bundle = readFileSync(entry)
    const kb = (bytes: number) => `${(bytes / 1024).toFixed(1)} KB`
    console.log(`Worker bundle ${kb(bundle.length)}, gzip ${kb(gzipSync(bundle).length)}`)
  }
} finally {
  rmSync(outdir, { recursive: true, force: true })
}
