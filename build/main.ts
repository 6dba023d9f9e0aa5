import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../local/binaries.ts'
import { buildAgent } from './agent.ts'
import { buildScrub } from './scrub.ts'
import { buildWorker } from './worker.ts'

const dist = join(root, 'dist')
mkdirSync(dist, { recursive: true })
const outputs = {
  agent: join(dist, 'agent.mjs'),
  scrub: join(dist, 'scrub.mjs'),
  worker: join(dist, 'worker.js'),
}
await Promise.all([
  buildAgent(outputs.agent),
  buildScrub(outputs.scrub),
  buildWorker(join(root, 'src', 'worker.ts'), outputs.worker, { minify: true }),
])
for (const [name, path] of Object.entries(outputs)) {
  console.log(`${name.padEnd(7)} ${path} ${(statSync(path).size / 1024).toFixed(0)} KB`)
}
